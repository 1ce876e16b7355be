"""Faults of endpoints whose health is checked: one request at a time, and what a fault has taken out is back before the
next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.conformance.verify.cases import ALIKE, WAITS, Phase, ScheduledCase, script_case, time_window, tries
from lbgen.plan.features import Feature
from lbgen.plan.policy import RetryCause
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.plan.model import Forward, Plan, Pool, Route
    from lbgen.plan.policy import ActiveHealth
    from lbgen.plan.request import Request

_TOLD = 0.55  # of a time: what ends before it is another time
_WITHOUT_ENDPOINTS = (Phase.HUNG, Phase.REFUSED, Phase.DROPPED, Phase.FOREIGN)


def fault_cases(
    plan: Plan, route: Route, action: Forward, hit: Request, usual: Iterator[ScheduledCase]
) -> Iterator[ScheduledCase]:
    """Of the `usual` cases of a route those whose fault is one request's alone, and cases of endpoints that nobody can
    reach."""
    pools = [plan.pool(target.pool) for target in action.targets if target.weight]
    passive = any(pool.passive is not None for pool in pools)
    for one in usual:
        fault = bool(one.case.steps)
        if one.phase in _WITHOUT_ENDPOINTS or one.pool or (fault and not _fits(pools, one.case.expect.tries or 1)):
            continue
        yield replace(one, phase=Phase.ALONE) if passive and fault else one
    yield from _unreachable(pools, route, action, hit)


def _fits(pools: list[Pool], count: int) -> bool:
    """Whether so many failures of one request leave an endpoint for each further try."""
    return all(
        pool.passive is None or count <= max(pool.passive.failures, sum(1 for x in pool.endpoints if x.weight))
        for pool in pools
    )


def _unreachable(pools: list[Pool], route: Route, action: Forward, hit: Request) -> Iterator[ScheduledCase]:
    """Endpoints that refuse connections, or do not answer to them."""
    names = [f"{pool.name}-{n}" for pool in pools for n, _ in enumerate(pool.endpoints)]
    times, count = action.timeouts, tries(action.retries, RetryCause.CONNECT_FAILURE, hit.method)
    heal = max(_heal_time(pool) for pool in pools)
    common = {"request": hit, "names": names, "heal_ms": heal}
    features = (WAITS, ALIKE, str(Feature.RETRIES), str(Feature.FAILURES))
    params = {**common, "how": "refuse", "within_ms": (0, 1000)}
    found = [script_case("5.refused", "unreachable_endpoints", hit, params, features, route.name)]
    total = count * times.connect
    if times.connect and (not times.request or total < times.request) and _fits(pools, count):
        low, high = time_window(total, count)
        # Checks that get no answer may take the endpoints out before.
        out = min((_out_time(pool.active) for pool in pools if pool.active is not None), default=low)
        exact = min(low, out) > _TOLD * total
        params = {**common, "how": "drop", "within_ms": (min(low, out), high)}
        clause = "6.connect" if exact else "5.unreachable"
        found.append(script_case(clause, "unreachable_endpoints", hit, params, features, route.name))
    yield from (replace(one, phase=Phase.ALONE) for one in found)


def _out_time(active: ActiveHealth) -> int:
    """Milliseconds that checks take at least until an endpoint which does not answer is out."""
    return round(0.8 * ((active.fall - 1) * active.interval + active.timeout))


def _heal_time(pool: Pool) -> int:
    """Milliseconds after which an endpoint is back."""
    active = 0 if pool.active is None else (pool.active.rise + 1) * (pool.active.interval + pool.active.timeout)
    return active + (0 if pool.passive is None else pool.passive.eject_for) + pool.slow_start + 1_500
