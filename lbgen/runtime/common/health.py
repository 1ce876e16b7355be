"""Combines what engines and agents report into the health of each endpoint, by its name in the topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.diagnostics import UsageError
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.health import Condition, State, Watched

if TYPE_CHECKING:
    from lbgen.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Member:
    """An endpoint as an engine has it: `address` is the stand-in's where one plays it, else as `name` has it, which is
    the topology's `host:port`. `judged`: its pool has checks, active or passive."""

    pool: str
    name: str
    address: str
    judged: bool


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """One endpoint for people: `state` is up, starting (slowly), draining, ejected, down or unknown; `since` seconds of
    the epoch, None when it is unknown; `endpoint` as in the topology, `address` as the engine was given it."""

    pool: str
    endpoint: str
    address: str
    state: str
    since: float | None
    reason: str


def members(plan: Plan, inside: Plan) -> tuple[Member, ...]:
    """List the endpoints of `plan` as an engine has them that serves the plan `inside`."""
    given = {pool.name: pool for pool in inside.pools}
    return tuple(
        Member(pool.name, each.authority, there.authority, pool.active is not None or pool.passive is not None)
        for pool in plan.pools
        if pool.name in given
        for each, there in zip(pool.endpoints, given[pool.name].endpoints, strict=False)
    )


def status_engine(name: str) -> Watched | None:
    """Return the engine of that name if it reports endpoint health, else None."""
    try:
        found = engine_by_name(name)
    except UsageError:  # uninstalled since
        return None
    return found if isinstance(found, Watched) else None


def combine_health(
    title: str,
    engine: Watched | None,
    endpoints: Iterable[Member],
    answers: Mapping[str, str] | None,
    agent: Mapping[tuple[str, str], Condition],
) -> tuple[EndpointHealth, ...]:
    """Return the health of all members, in their order. `answers` is the engine's report, None without one; what an
    agent found, by pool and address, comes first."""
    pools: dict[str, list[str]] = {}
    for each in endpoints:
        pools.setdefault(each.pool, []).append(each.address)
    said = engine.health(pools, answers) if engine is not None and answers is not None else {}
    silent = f"{title} does not answer"
    if engine is None:
        silent = f"{title} does not report it, and no agent checks it"
    elif answers is not None:
        silent = f"{title} says nothing of it"
    found = []
    place: dict[str, int] = {}
    for each in endpoints:
        index = place[each.pool] = place.get(each.pool, -1) + 1
        condition = agent.get((each.pool, each.address)) or said.get((each.pool, index))
        if condition is None:
            condition = Condition(State.UNKNOWN, reason=silent)
        elif condition.state is State.UP and not each.judged:
            condition = Condition(State.UNKNOWN, reason="nothing checks it")
        found.append(
            EndpointHealth(each.pool, each.name, each.address, str(condition.state), condition.since, condition.reason)
        )
    return tuple(found)
