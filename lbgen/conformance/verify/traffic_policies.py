"""Cases that take many requests: rates, limits, splits and mirrors; `pools` has those of each pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.conformance.verify import pools
from lbgen.conformance.verify.cases import (
    Phase,
    ScheduledCase,
    distinct_client,
    route_requests,
    script_case,
    with_headers,
)
from lbgen.conformance.verify.pools import MOST, hold_time
from lbgen.conformance.verify.pools import TIMES as _TIMES
from lbgen.conformance.verify.pools import deviation_bounds as _bounds
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Listener, Mode, Plan, Route
from lbgen.plan.policy import Access, Key, KeyKind, RateLimit
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.plan.request import Request

_REFILL = 3  # seconds in which tokens that other cases took have surely come back
_RAREST = 0.04  # share of a pool whose answers are waited for


def policy_cases(plan: Plan, client: str) -> Iterator[ScheduledCase]:
    """One case for each policy of each route and pool, at the first listener that serves it."""
    seen: set[str] = set()
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            continue
        for route, hit in route_requests(plan, listener, client):
            if route.name in seen:
                continue
            seen.add(route.name)
            yield from map(_alone, _limits(plan.listener(hit.listener), route, hit))
            if isinstance(route.action, Forward) and route.rate_limit is None and route.concurrency is None:
                yield from map(_alone, _forwarded(plan, route, route.action, hit, seen))


def _alone(one: ScheduledCase) -> ScheduledCase:
    return replace(one, phase=Phase.ALONE)


def _limits(listener: Listener, route: Route, hit: Request) -> Iterator[ScheduledCase]:
    rate, most = route.rate_limit, route.concurrency
    access = (listener.access, route.access)
    spent = rate is not None and shares_tokens(rate, hit.client) and rate.burst * rate.seconds > _REFILL * rate.amount
    if (
        rate is not None
        and not spent
        and rate.burst <= MOST
        and (asked := _keyed(hit, rate.key, 1, access)) is not None
    ):
        params = {"request": asked, "burst": rate.burst, "per_second": rate.amount / rate.seconds}
        yield script_case("5.rate", "rate_holds", hit, params, (str(Feature.RATE_LIMIT),), route.name)
    enough = rate is None or rate.burst > (most.max if most is not None else 0) + 2
    if most is None or most.max > MOST or not isinstance(route.action, Forward) or not enough:
        return
    if (asked := _keyed(hit, most.key, 2, access)) is not None:
        params = {"request": asked, "most": most.max, "status": 429, "hold_ms": hold_time(route)}
        yield script_case("5.concurrency", "concurrency_holds", hit, params, (str(Feature.CONCURRENCY),), route.name)


def shares_tokens(rate: RateLimit, client: str) -> bool:
    """Whether all requests of a verification are counted together: on loopback they come from one client."""
    return rate.key.kind is KeyKind.ROUTE or (rate.key.kind is KeyKind.CLIENT_IP and client.startswith("127."))


def _keyed(hit: Request, key: Key, number: int, access: tuple[Access | None, ...]) -> Request | None:
    """`hit` with a value of the key that no other case uses; None when there is none."""
    if key.kind is KeyKind.HEADER:
        return with_headers(hit, (key.name, f"verify-{number}"))
    if key.kind is not KeyKind.CLIENT_IP or hit.client.startswith("127."):
        return hit
    client = distinct_client(90_000 + number, *access)
    return None if client is None else replace(hit, client=client)


def _forwarded(plan: Plan, route: Route, action: Forward, hit: Request, seen: set[str]) -> Iterator[ScheduledCase]:
    targets = [target for target in action.targets if target.weight]
    total = sum(target.weight for target in targets)
    if len(targets) > 1:
        share = {target.pool: _bounds(target.weight / total) for target in targets}
        yield _counted("4.split", hit, "pool", share, (str(Feature.SPLIT),), route)
    for mirror in action.mirrors:
        low, high = _bounds(mirror.percent / 100)
        params = {"request": hit, "pool": mirror.pool, "times": _TIMES, "copies": (low, high)}
        if mirror.pool not in {target.pool for target in targets}:
            yield script_case("4.mirror", "copies_reach_mirror", hit, params, (str(Feature.MIRROR),), route.name)
    for target in targets:
        if f"pool {target.pool}" not in seen and target.weight / total >= _RAREST:
            seen.add(f"pool {target.pool}")
            of = target.pool if len(targets) > 1 else ""
            access = (plan.listener(hit.listener).access, route.access)
            yield from pools.pool_cases(plan, plan.pool(target.pool), hit, route, access, of)


def _counted(
    clause: str, hit: Request, by: str, share: dict[str, tuple[int, int]], features: tuple[str, ...], route: Route
) -> ScheduledCase:
    params = {"request": hit, "times": _TIMES, "by": by, "share": share}
    return script_case(clause, "shares_hold", hit, params, features, route.name)
