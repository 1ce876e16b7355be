"""Run jobs in worker processes, one each, all at once; none outlives this process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socket, socketpair
from tempfile import TemporaryFile

from lbgen.conformance.verify.messages import Failed, Finished, Job, JobProgress
from lbgen.diagnostics import Diagnostic

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lbgen.conformance.verify.worker import main; main(json.loads(sys.argv[2]))"
)
_STOP_SECONDS = 15.0


def run_all(jobs: Sequence[Job], progress: Callable[[JobProgress], None]) -> list[Finished | Failed]:
    """Run every job in its own process; the outcomes, in the order of `jobs`."""
    pairs = [socketpair() for _ in jobs]
    path = json.dumps([entry or str(Path.cwd()) for entry in sys.path])
    with TemporaryFile() as said:
        # One process reads our modules and becomes one for each order: reading takes longer than many a case.
        process = subprocess.Popen(  # noqa: S603  # ourselves
            [sys.executable, "-P", "-c", _BOOT, path, json.dumps([theirs.fileno() for _, theirs in pairs])],
            pass_fds=[theirs.fileno() for _, theirs in pairs],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd="/",
        )
        for _, theirs in pairs:
            theirs.close()
        with ThreadPoolExecutor(len(jobs)) as pool:
            ended = list(pool.map(lambda job, pair: _one(job, pair[0], progress), jobs, pairs))
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        said.seek(0)
        text = said.read().decode("utf-8", "replace").strip()
    silent = (Diagnostic("LB403", f"the process that verified it ended:\n{text}"),)
    return [each or Failed(job.name, silent) for job, each in zip(jobs, ended, strict=True)]


def _one(job: Job, ours: socket, progress: Callable[[JobProgress], None]) -> Finished | Failed | None:
    """The outcome of one job; None when its process ends without a message."""
    with Connection(ours.detach()) as pipe:
        try:
            pipe.send(job)
            found: Finished | Failed | JobProgress = pipe.recv()
            while isinstance(found, JobProgress):
                progress(found)
                found = pipe.recv()
        except (EOFError, OSError):
            return None
    return found
