"""A swarm, by the docker SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.orchestrators.model import OrchestratedStack

if TYPE_CHECKING:
    from lbgen.runtime.common.driver import PartChange, Progress
    from lbgen.runtime.common.logs import Line
    from lbgen.runtime.orchestrators.model import Deployment, Options, Record


def context(record: Record) -> str:
    _refuse()


def up(wanted: Deployment, options: Options) -> bool:
    _refuse()


def preview(wanted: Deployment) -> tuple[PartChange, ...]:
    _refuse()


def state(record: Record) -> OrchestratedStack:
    return OrchestratedStack(record.name, "", 0, 0, record=record)


def end(record: Record, progress: Callable[[Progress], None]) -> None:
    _refuse()


def lines(record: Record, engine: str | None, *, follow: bool) -> Iterator[Line]:
    _refuse()


def _refuse() -> NoReturn:
    hint = "lbgen export --to swarm writes what docker stack deploy applies"
    raise EngineError(Diagnostic("LB433", "this lbgen does not run stacks on swarms by itself", hint=hint))
