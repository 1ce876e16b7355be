"""What `up` or `reload` does to each part of a stack: the decision, apart from carrying it out."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.agent_spec import FILE as ORDER
from lbgen.engines.metrics_spec import FILE as METRICS
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.diagnostics import Diagnostic
    from lbgen.engines.api import ProcessSpec
    from lbgen.plan.model import Plan
    from lbgen.plan.tiers import Tier


class Action(StrEnum):
    """What happens to a part. Only INTERRUPT loses requests."""

    CREATE = "create"
    RELOAD = "reload"  # the same process or container serves the change
    REPLACE = "replace without a gap"
    INTERRUPT = "replace with a gap"
    REMOVE = "remove"
    NONE = "no change"


class Kind(StrEnum):
    ENGINE = "engine"
    STAND_INS = "stand-ins"  # all of a stack, in one process or container
    AGENT = "agent"


class PartChange(Struct, frozen=True):
    """What happens to one part. `name`: of the engine that it is or belongs to, of a replica (`web-1`), or "" for the
    stand-ins of a stack without tiers. `reason` says why it is not less, "" where that is plain."""

    kind: Kind
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
    return bool(spec.hot_restart_argv) and bool(names) and all(x in (ORDER, METRICS) or spec.watches(x) for x in names)


def agent_action(before: bool, after: bool, kept: Action) -> Action | None:
    """What happens to an agent that was or was not, and will be or not; `kept` where it stays. None: there is none."""
    if before and after:
        return kept
    return Action.CREATE if after else Action.REMOVE if before else None
