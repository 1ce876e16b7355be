"""What an engine honours as processes and not in containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic
from lbgen.engines.api import Objection, refused, runs_in_kernel
from lbgen.plan.features import Feature

if TYPE_CHECKING:
    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan

_NO_AGENT = "in containers lbgen starts no agent that may load rules into the kernel"


def objections(plan: Plan, target: Engine) -> tuple[Objection, ...]:
    """A refusal for each pool with active checks, of an engine whose rules are in the kernel."""
    if not runs_in_kernel(target, plan):
        return ()
    pools = (pool for pool in plan.pools if pool.active is not None)
    return tuple(Objection(refused(_NO_AGENT), f"{each.field}.health.active", Feature.HEALTH_ACTIVE) for each in pools)


def diagnostics(plan: Plan, target: Engine) -> tuple[Diagnostic, ...]:
    """LB301 for each of these objections."""
    return tuple(
        Diagnostic(
            "LB301",
            f"{Feature.HEALTH_ACTIVE} is refused by {target.title}: {each.verdict.note}",
            plan.span(each.field),
            each.field,
            "run it with `--runtime local`, or leave this engine out",
        )
        for each in objections(plan, target)
    )
