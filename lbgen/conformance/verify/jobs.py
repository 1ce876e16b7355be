"""Jobs: what the worker process that verifies one engine gets and sends back. All run at once, and none outlives this
process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lbgen.diagnostics import Diagnostic
from lbgen.engines.api import Binary
from lbgen.engines.rendered import Rendered
from lbgen.plan.model import Plan

if TYPE_CHECKING:
    from lbgen.conformance.runner import Result
    from lbgen.conformance.verify.cases import ScheduledCase

ComparedAnswer = tuple[int | None, str, str, str]  # status, location, pool, what the endpoint was asked for
_WORKER = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lbgen.conformance.verify.worker import main; main(int(sys.argv[2]))"
)
_STOP_SECONDS = 15.0


class FrontTier(Struct, frozen=True):
    """A tier in front of the one to verify: `engine` serves `plan`, whose `listener` leads to the `replicas`."""

    engine: str
    version: str
    binary: Binary
    plan: Plan
    listener: str
    replicas: tuple[Plan, ...]


class Job(Struct, frozen=True):
    """`plan` is the one to verify: scaled times, and without a network of its own other ports and endpoints.

    `rendered` are files to serve as they stand. `isolated`: in a network where every address is here. `folder` holds
    the certificates of stand-ins and clients. `front`: requests go through another tier, and `plan` is what
    clients meet there. `own_ports`: the topology's port by the port that a listener has instead.
    """

    engine: str
    version: str
    binary: Binary
    plan: Plan
    cases: tuple[ScheduledCase, ...]
    rendered: Rendered | None = None
    isolated: bool = True
    folder: str = ""
    front: FrontTier | None = None
    own_ports: Mapping[int, int] = field(default_factory=dict)
    label: str = ""  # engine and version, where another version of the engine is verified beside it

    @property
    def name(self) -> str:
        """What reports call the engine."""
        return self.label or self.engine


class JobProgress(Struct, frozen=True):
    """Progress: so many of an engine's cases are done."""

    engine: str
    what: str
    done: int = 0
    total: int = 0


class Finished(Struct, frozen=True):
    """All results of an engine; `answers` by case id are what the engines are compared by among themselves."""

    engine: str
    results: tuple[Result, ...]
    answers: dict[str, ComparedAnswer] = field(default_factory=dict)


class Failed(Struct, frozen=True):
    """The engine could not be verified."""

    engine: str
    diagnostics: tuple[Diagnostic, ...]


def run_all(jobs: Sequence[Job], progress: Callable[[JobProgress], None]) -> list[Finished | Failed]:
    """Run every job in its own process; the outcomes, in the order of `jobs`."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(lambda job: _run(job, progress), jobs))


def _run(job: Job, progress: Callable[[JobProgress], None]) -> Finished | Failed:
    ours, theirs = socketpair()
    path = json.dumps([entry or str(Path.cwd()) for entry in sys.path])
    with TemporaryFile() as said, Connection(ours.detach()) as pipe:
        with theirs:
            process = subprocess.Popen(  # noqa: S603  # ourselves
                [sys.executable, "-P", "-c", _WORKER, path, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd="/",
            )
        try:
            pipe.send(job)
            while isinstance(found := pipe.recv(), JobProgress):
                progress(found)
        except (EOFError, OSError):
            found = None
        pipe.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        said.seek(0)
        text = said.read().decode("utf-8", "replace").strip()
    done: Finished | Failed | None = found
    return done or Failed(job.name, (Diagnostic("LB403", f"the process that verified it ended:\n{text}"),))
