"""The protocol of a runtime: it starts, finds, reloads and stops stacks, and reads what they print."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic
    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan
    from lbgen.runtime.common.decision import Decision
    from lbgen.runtime.common.logs import Line
    from lbgen.runtime.common.progress import Progress
    from lbgen.runtime.common.state import StackState


START_SECONDS = 20.0  # for listeners to open, and again for routes to answer
RELOAD_SECONDS = 10.0  # for the routes to answer after a change
DRAIN_SECONDS = 10.0  # how long open connections of an engine that was replaced may live on


class ReloadOptions(Struct, frozen=True):
    """How a driver changes a stack, as the arguments of `lbgen.api.reload`."""

    accept: tuple[str, ...]
    progress: Callable[[Progress], None]
    seconds: float


class UpOptions(Struct, frozen=True):
    """How a driver starts a stack, as the arguments of `lbgen.api.up`.

    `backends`: stand-ins replace the pools' endpoints. `insist`: the engines were named, so one that cannot serve is an
    error; else it is skipped.
    """

    backends: bool
    accept: tuple[str, ...]
    progress: Callable[[Progress], None]
    seconds: float = START_SECONDS
    drain: float = DRAIN_SECONDS
    insist: bool = True


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

    def up(self, plan: Plan, engines: Sequence[Engine], options: UpOptions) -> Result:
        """Bring `plan` up on `engines`. Raises LbgenError (verdicts), EngineError."""
        ...

    def reload(self, stack: StackState, plan: Plan, options: ReloadOptions) -> Result:
        """Make a running stack serve `plan` without losing a request, or leave it as it was.

        Raises LbgenError (verdicts), EngineError LB401, LB404, LB412, LB413.
        """
        ...

    def running(self, names: Collection[str] | None = None) -> tuple[StackState, ...]:
        """List every stack, including those with a dead process; with `names` only those of that name."""
        ...

    def end(self, stack: StackState, progress: Callable[[Progress], None]) -> None:
        """Stop a stack and remove everything that belongs to it; do nothing when it is gone."""
        ...

    def lines(self, stack: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
        """Yield what the stack printed and the requests it logged; with `follow` until the stack is down."""
        ...

    def plan_behind_front(self, plan: Plan, before: StackState | None) -> Plan:
        """Return the plan of a stack that only the tier in front reaches, at the addresses that it had `before`."""
        ...

    def listener_addresses(self, state: StackState) -> dict[str, tuple[str, int]]:
        """Return IP address and port of each listener, as the stack in front reaches them."""
        ...

    def attach_networks(self, front: StackState, behind: Sequence[StackState]) -> None:
        """Connect the engines of `front` to the stacks behind it, where the runtime separates them."""
        ...

    def connections(self, state: StackState) -> int:
        """Count the open connections of its listeners; 0 where they cannot be seen."""
        ...


class Previewer(Protocol):
    """Beside a driver, a module: what the driver would do to what runs now, which is only looked at."""

    def preview_up(self, plan: Plan, engines: Sequence[Engine], options: UpOptions) -> Decision:
        """Return what `Driver.up` would do. Raises LbgenError (verdicts), EngineError."""
        ...

    def preview_reload(self, stack: StackState, plan: Plan, options: ReloadOptions) -> Decision:
        """Return what `Driver.reload` would do. Raises LbgenError (verdicts), EngineError LB412."""
        ...
