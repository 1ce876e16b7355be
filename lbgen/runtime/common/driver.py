"""What a runtime is: it brings stacks up, finds them, tells what they print and ends them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lbgen.diagnostics import Diagnostic
    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan
    from lbgen.runtime.common.logs import Line
    from lbgen.runtime.common.progress import Progress
    from lbgen.runtime.common.state import StackState


START_SECONDS = 20.0  # for listeners to open, and again for routes to answer
RELOAD_SECONDS = 10.0  # for the routes to answer after a change
DRAIN_SECONDS = 10.0  # how long open connections of an engine that was replaced may live on


@dataclass(frozen=True, slots=True)
class Result:
    """What a driver did.

    `skipped`: engines that were left out, with the findings that say why. `warnings`: routes whose own endpoints do not
    answer, or that could not be asked. `unchanged`: the stack was up to date. `replaced`: another version of it was
    stopped. `reloaded`: the running engines loaded the change. `cut`: connections of replaced engines that were still
    open at the end of their drain time.
    """

    state: StackState
    skipped: tuple[tuple[str, tuple[Diagnostic, ...]], ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    unchanged: bool = False
    replaced: bool = False
    reloaded: bool = False
    cut: int = 0


class Driver(Protocol):
    """One runtime, a module."""

    def up(
        self,
        plan: Plan,
        engines: Sequence[Engine],
        *,
        insist: bool,
        backends: bool,
        accept: tuple[str, ...],
        progress: Callable[[Progress], None],
        seconds: float,
        drain: float,
    ) -> Result:
        """Bring `plan` up on `engines`. `insist`: they were named, so one that cannot is an error; else it is skipped.
        Connections of an engine that is replaced without a gap live on for `drain` seconds at most.

        Raises LbgenError (verdicts), EngineError.
        """
        ...

    def reload(
        self,
        stack: StackState,
        plan: Plan,
        *,
        accept: tuple[str, ...],
        progress: Callable[[Progress], None],
        seconds: float,
    ) -> Result:
        """Have a running stack serve `plan`, with no request lost, or leave it as it was.

        Raises LbgenError (verdicts), EngineError LB401, LB404, LB412, LB413.
        """
        ...

    def running(self) -> tuple[StackState, ...]:
        """Every stack there is, also one of which something died."""
        ...

    def end(self, stack: StackState, progress: Callable[[Progress], None]) -> None:
        """Stop a stack and remove all that was its own; nothing happens when it is gone."""
        ...

    def lines(self, stack: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
        """What it printed and the requests it logged; `follow`: on and on until it is down."""
        ...

    def plan_behind_front(self, plan: Plan, before: StackState | None) -> Plan:
        """What a stack shall serve that only others in front of it reach; it stays where it was `before`."""
        ...

    def listener_addresses(self, state: StackState) -> dict[str, tuple[str, int]]:
        """IP address and port of each of its listeners, as the stack in front reaches them."""
        ...

    def attach_networks(self, front: StackState, behind: Sequence[StackState]) -> None:
        """Make sure that the engines of `front` can reach the stacks behind it, where that is not so by itself."""
        ...

    def connections(self, state: StackState) -> int:
        """How many connections its listeners have; 0 where that cannot be seen."""
        ...
