"""The protocol of a runtime, a driver: what it is asked for, the steps that it reports, what it decides and returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic
from lbgen.engines.acme_spec import FILE as ACME
from lbgen.engines.agent_spec import FILE as ORDER
from lbgen.engines.api import Engine, ProcessSpec
from lbgen.engines.metrics_spec import FILE as METRICS
from lbgen.plan.model import Plan
from lbgen.plan.tiers import Tier
from lbgen.runtime.common.logs import Line
from lbgen.runtime.common.state import StackState

AGENT_FILES = (ORDER, METRICS, ACME)
"""What the agent reads; it needs one of them."""


class Step(StrEnum):
    """A step of `up` for an engine (or, with an empty engine name, for the stack)."""

    PULLING = "pulling its image"
    BUILDING = "building an image"
    POOLS = "endpoints"
    BACKENDS = "stand-ins answer"
    STARTED = "started"
    LISTENING = "listening"
    ANSWERED = "route answered"
    READY = "ready"
    REPLACING = "replacing"
    CHECKING = "checks the change"
    CHECKED = "the change is sound"
    LOADING = "loads the change"
    REVERTING = "goes back to what it served"
    RELOADED = "loaded the change"
    VERIFYING = "compared"
    VERIFIED = "behaves the same"
    DRAINING = "serves in place of the one before"
    DRAINED = "drained"
    STOPPED = "stopped"
    TAKEN_OVER = "taken over"
    TARGET = "goes to"
    TASKS = "tasks ready:"


REPORTED_AT_START = frozenset(
    {Step.TASKS, Step.PULLING, Step.CHECKING, Step.LOADING, Step.REVERTING}
)  # the others when done


class Progress(Struct, frozen=True, tag=True):
    """A step that is done, or one of `REPORTED_AT_START` that begins. `done` of `total` counts the routes that answer;
    both are 0 in other steps."""

    step: Step
    engine: str = ""
    detail: str = ""
    done: int = 0
    total: int = 0


def no_progress(progress: object) -> None:
    """Ignore a step: the default of functions that report their progress."""


class Action(StrEnum):
    """What happens to a part. Only INTERRUPT loses requests."""

    CREATE = "create"
    RELOAD = "reload"  # the same process or container serves the change
    REPLACE = "replace without a gap"
    INTERRUPT = "replace with a gap"
    REMOVE = "remove"
    NONE = "no change"


class PartKind(StrEnum):
    ENGINE = "engine"
    STAND_INS = "stand-ins"  # all of a stack, in one process or container
    AGENT = "agent"


class PartChange(Struct, frozen=True):
    """What happens to one part. `name`: of the engine that it is or belongs to, of a replica (`web-1`), or "" for the
    stand-ins of a stack without tiers. `reason` says why it is not less, "" where that is plain."""

    kind: PartKind
    name: str
    action: Action
    reason: str = ""


class Decision(Struct, frozen=True):
    """`before` is the plan that runs, None where nothing does or that is not known; `after` the plan that would run.
    `skipped` and `warnings` as in `driver.Result`."""

    parts: tuple[PartChange, ...]
    before: Plan | None
    after: Plan
    skipped: tuple[tuple[str, tuple[Diagnostic, ...]], ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    def of_replica(self, part: str) -> tuple[PartChange, ...]:
        """The changes under the name of a replica."""
        return tuple(replace(each, name=part) for each in self.parts)


class GroupDecision(Struct, frozen=True):
    """As `Decision`, of a topology with tiers: the tiers that run and those that would run, by their first replicas."""

    parts: tuple[PartChange, ...]
    before: tuple[Tier, ...]
    after: tuple[Tier, ...]
    skipped: tuple[tuple[str, tuple[Diagnostic, ...]], ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def reads_by_itself(spec: ProcessSpec, changed: Iterable[str]) -> bool:
    """Whether an engine that hot-restarts reads all `changed` files again by itself, so that it need not restart. Those
    of its agent are none of its own."""
    names = tuple(changed)
    return bool(spec.hot_restart_argv) and bool(names) and all(x in AGENT_FILES or spec.watches(x) for x in names)


def agent_action(before: bool, after: bool, kept: Action) -> Action | None:
    """What happens to an agent that was or was not, and will be or not; `kept` where it stays. None: there is none."""
    if before and after:
        return kept
    return Action.CREATE if after else Action.REMOVE if before else None


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


class Result(Struct, frozen=True):
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


class Running(Protocol):
    """What every runtime does with stacks that run."""

    def running(self, names: Collection[str] | None = None) -> tuple[StackState, ...]:
        """List every stack, including those with a dead process; with `names` only those of that name."""
        ...

    def end(self, stack: StackState, progress: Callable[[Progress], None]) -> None:
        """Stop a stack and remove everything that belongs to it; do nothing when it is gone."""
        ...

    def lines(self, stack: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
        """Yield what the stack printed and the requests it logged; with `follow` until the stack is down."""
        ...


class Driver(Running, Protocol):
    """A runtime of this machine, a module."""

    def up(self, plan: Plan, engines: Sequence[Engine], options: UpOptions) -> Result:
        """Bring `plan` up on `engines`. Raises LbgenError (verdicts), EngineError."""
        ...

    def reload(self, stack: StackState, plan: Plan, options: ReloadOptions) -> Result:
        """Make a running stack serve `plan` without losing a request, or leave it as it was.

        Raises LbgenError (verdicts), EngineError LB401, LB404, LB412, LB413.
        """
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

    def preview_up(self, plan: Plan, engines: Sequence[Engine], options: UpOptions) -> Decision:
        """Return what `up` would do to what runs now; nothing is touched. Raises LbgenError (verdicts), EngineError."""
        ...

    def preview_reload(self, stack: StackState, plan: Plan, options: ReloadOptions) -> Decision:
        """Return what `reload` would do, in the same way. Raises LbgenError (verdicts), EngineError LB412."""
        ...
