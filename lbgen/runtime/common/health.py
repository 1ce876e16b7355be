"""Combines what engines and agents report into the health of each endpoint, by its name in the topology."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from lbgen.diagnostics import LbgenError, UsageError
from lbgen.engines.api import Counting, Counts
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.health import Condition, State, Watched
from lbgen.plan.model import Plan


class Member(Struct, frozen=True):
    """An endpoint as an engine has it: `address` is the stand-in's where one plays it, else as `name` has it, which is
    the topology's `host:port`. `judged`: its pool has checks, active or passive."""

    pool: str
    name: str
    address: str
    judged: bool


class EndpointHealth(Struct, frozen=True):
    """One endpoint for people: `state` is up, starting (slowly), draining, ejected, down or unknown; `since` seconds of
    the epoch, None when it is unknown; `endpoint` as in the topology, `address` as the engine was given it;
    `connections` (over UDP: flows) since the engine's rules were loaded, None where they are not counted."""

    pool: str
    endpoint: str
    address: str
    state: str
    since: float | None
    reason: str
    connections: int | None = None


def members(plan: Plan, inside: Plan) -> tuple[Member, ...]:
    """List the endpoints of `plan` as an engine has them that serves the plan `inside`."""
    given = {pool.name: pool for pool in inside.pools}
    return tuple(
        Member(pool.name, each.authority, there.authority, pool.active is not None or pool.passive is not None)
        for pool in plan.pools
        if pool.name in given and not pool.is_agent
        for each, there in zip(pool.endpoints, given[pool.name].endpoints, strict=False)
    )


def status_engine(name: str) -> Watched | None:
    """Return the engine of that name if it reports endpoint health, else None."""
    try:
        found = engine_by_name(name)
    except UsageError:  # uninstalled since
        return None
    return found if isinstance(found, Watched) else None


def read_counts(name: str, run: Callable[[tuple[str, ...]], str]) -> Counts | None:
    """The connections that the kernel counted for the engine of that name; None where it counts none, or is gone. `run`
    returns what a command says where the engine's rules are, or raises EngineError."""
    try:
        found = engine_by_name(name)
        return found.counts(run(found.counts_argv)) if isinstance(found, Counting) else None
    except (LbgenError, OSError, subprocess.SubprocessError, ValueError, LookupError):
        return None


def combine_health(
    title: str,
    engine: Watched | None,
    endpoints: Iterable[Member],
    answers: Mapping[str, str] | None,
    agent: Mapping[tuple[str, str], Condition],
    counts: Counts | None = None,
) -> tuple[EndpointHealth, ...]:
    """Return the health of all members, in their order. `answers` is the engine's report, None without one; what an
    agent found, by pool and address, comes first. `counts` are those of the kernel."""
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
            EndpointHealth(
                each.pool,
                each.name,
                each.address,
                str(condition.state),
                condition.since,
                condition.reason,
                None if counts is None else counts.endpoints.get(each.address),
            )
        )
    return tuple(found)
