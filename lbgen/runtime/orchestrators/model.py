"""What an orchestrator is asked to run, the record of it in the state directory, and the protocol of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from lbgen.diagnostics import Diagnostic
from lbgen.engines.rendered import Rendered
from lbgen.plan.tiers import Tier
from lbgen.runtime.common import saved
from lbgen.runtime.common.driver import PartChange, Progress
from lbgen.runtime.common.health import EndpointHealth
from lbgen.runtime.common.logs import Line
from lbgen.runtime.common.state import Address, EngineState, StackState, read_record, root, write_record

SCHEMA, PLANS_SCHEMA = 1, 1  # of the files of a record


class Service(Struct, frozen=True):
    """A tier, or the whole topology, as an orchestrator runs it. `name` is that of its objects and folder; `part` the
    tier's, or the engine's without tiers. `addresses` are those of its listeners, the host where clients connect being
    for the orchestrator to say."""

    name: str
    part: str
    engine: str
    title: str
    version: str
    entry: bool
    addresses: tuple[Address, ...] = ()


class Record(Struct, frozen=True):
    """A stack that was started from this state directory. `context` and `namespace` say where; `engine`, `replicas`
    and `accept` are what `up` was given."""

    name: str
    runtime: str
    services: tuple[Service, ...] = ()
    context: str = ""
    namespace: str = ""
    engine: str | None = None
    replicas: Mapping[str, int] = {}
    accept: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The place, in words."""
        place = f"the {self.runtime} {self.context}" if self.runtime == "swarm" else f"the context {self.context}"
        return f"{place}, namespace {self.namespace}" if self.namespace else place


class Deployment(Struct, frozen=True):
    """What `up` is asked to run: the folder of the export, the plans behind it, and what the target keeps in another
    way."""

    record: Record
    folder: Rendered
    tiers: tuple[Tier, ...]
    findings: tuple[Diagnostic, ...] = ()


class Options(Struct, frozen=True):
    """`seconds`: how long each service may take until it is ready."""

    progress: Callable[[Progress], None]
    seconds: float


class TaskState(EngineState, frozen=True):
    """A task or pod. What its engine says of endpoints cannot be asked from here."""

    @property
    def health(self) -> tuple[EndpointHealth, ...]:
        return ()

    @property
    def counts(self) -> None:
        return None

    @property
    def running(self) -> bool:
        return not self.ended


class OrchestratedStack(StackState, frozen=True):
    """A stack on an orchestrator, which restarts what ends by itself."""

    record: Record = Record("", "")

    @property
    def runtime(self) -> str:
        return self.record.runtime

    @property
    def alive(self) -> bool:
        return any(engine.running for engine in self.engines)


class Orchestrator(Protocol):
    """One of `lbgen.runtime.orchestrators.run.ORCHESTRATORS`, a module. Labels with the
    stack's name and this state directory's id (`labels.owner_labels`) say what is lbgen's; it touches nothing else."""

    def context(self, record: Record) -> str:
        """The name of the swarm or cluster that commands go to now. Raises EngineError LB433 where there is none, or it
        cannot be used, before anything is done."""
        ...

    def up(self, wanted: Deployment, options: Options) -> bool:
        """Run `wanted` and wait until all of it is ready; return whether anything changed. What is no longer in it is
        removed once the rest is ready.

        Where something does not get ready, and on any other exception (KeyboardInterrupt too), what served before
        serves again; of a first `up` the caller removes everything by `end`. Raises EngineError LB413 (taken back, and
        why), LB403 (a first start that failed), UsageError LB406 (objects of that name are not ours).
        """
        ...

    def preview(self, wanted: Deployment) -> tuple[PartChange, ...]:
        """What `up` would do to each service, those that would be removed last. Nothing is touched."""
        ...

    def state(self, record: Record) -> OrchestratedStack:
        """What runs. Where it cannot be seen, a task for each service whose `ended` says why; raises no EngineError."""
        ...

    def end(self, record: Record, progress: Callable[[Progress], None]) -> None:
        """Remove everything that carries the labels. Raises EngineError."""
        ...

    def lines(self, record: Record, engine: str | None, *, follow: bool) -> Iterator[Line]:
        """What the tasks printed and the requests that they logged; `engine` as one of `state` is named."""
        ...


def _path(name: str) -> Path:
    return root() / "orchestrated" / f"{name}.json"


def read(name: str) -> Record | None:
    """The record of a stack; None when there is none. Raises EngineError LB408."""
    return read_record(_path(name), SCHEMA, Record, "remove it once nothing of it runs")


def list_records() -> tuple[Record, ...]:
    """Every record."""
    found = (read(path.stem) for path in sorted(_path("").parent.glob("*.json")) if not path.name.startswith("."))
    return tuple(each for each in found if each is not None)


def write(record: Record) -> None:
    """Write it atomically. Raises EngineError LB408."""
    write_record(_path(record.name), SCHEMA, record)


def remove(name: str) -> None:
    """Remove the record and the plans."""
    for path in (_path(name), _path(name).with_suffix(".plans")):
        with suppress(FileNotFoundError):
            path.unlink()


def write_plans(name: str, tiers: tuple[Tier, ...]) -> None:
    """Keep what a stack serves, for previews. Raises EngineError LB408."""
    saved.write(_path(name).with_suffix(".plans"), PLANS_SCHEMA, tiers)


def read_plans(name: str) -> tuple[Tier, ...]:
    """What a stack serves; empty where that is not known, or another lbgen started it."""
    from lbgen.plan.tiers import Tier  # all that reads topologies

    return saved.read(_path(name).with_suffix(".plans"), PLANS_SCHEMA, tuple[Tier, ...]) or ()
