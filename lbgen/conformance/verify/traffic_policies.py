"""Cases that take many requests: rates, limits, balancing, health checks and mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, sqrt
from typing import TYPE_CHECKING, Any

from lbgen.conformance.verify.cases import (
    Phase,
    ScheduledCase,
    distinct_client,
    route_requests,
    script_case,
    with_headers,
)
from lbgen.plan.features import Feature
from lbgen.plan.model import Balance, Endpoint, Forward, Listener, Mode, Plan, Pool, Route
from lbgen.plan.policy import Access, Key, KeyKind, RateLimit
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.plan.request import Request

MOST = 300  # requests that one case may need
_REFILL = 3  # seconds in which tokens that other cases took have surely come back
_TIMES = 240  # requests whose shares are counted
_KEYS = 24
_CHOSEN = (Balance.HASH, Balance.SOURCE_HASH, Balance.RANDOM)  # who serves does not depend on who has places
_LONG = 1_500  # milliseconds in which many requests have come together
_DEVIATIONS = 5.0


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
        params = {"request": asked, "most": most.max, "status": 429, "hold_ms": _hold(route)}
        yield script_case("5.concurrency", "concurrency_holds", hit, params, (str(Feature.CONCURRENCY),), route.name)


def shares_tokens(rate: RateLimit, client: str) -> bool:
    """Whether all requests of a verification are counted together: on loopback they come from one client."""
    return rate.key.kind is KeyKind.ROUTE or (rate.key.kind is KeyKind.CLIENT_IP and client.startswith("127."))


def _hold(route: Route) -> int:
    """Milliseconds for which an answer may keep its client waiting."""
    times = getattr(route.action, "timeouts", None)
    limits = [] if times is None else [x for x in (times.response, times.request) if x]
    return min([_LONG, *(int(limit) * 3 // 4 for limit in limits)])


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
    if len(targets) > 1:
        total = sum(target.weight for target in targets)
        share = {target.pool: _bounds(target.weight / total) for target in targets}
        yield _counted("4.split", hit, "pool", share, (str(Feature.SPLIT),), route)
    for mirror in action.mirrors:
        low, high = _bounds(mirror.percent / 100)
        params = {"request": hit, "pool": mirror.pool, "times": _TIMES, "copies": (low, high)}
        if mirror.pool not in {target.pool for target in targets}:
            yield script_case("4.mirror", "copies_reach_mirror", hit, params, (str(Feature.MIRROR),), route.name)
    if len(targets) == 1 and f"pool {targets[0].pool}" not in seen:
        seen.add(f"pool {targets[0].pool}")
        pool = plan.pool(targets[0].pool)
        yield from _pool(plan.listener(hit.listener), pool, hit, route)


def _pool(listener: Listener, pool: Pool, hit: Request, route: Route) -> Iterator[ScheduledCase]:
    main = [(n, e) for n, e in enumerate(pool.endpoints) if e.weight and not e.backup]
    backups = [f"{pool.name}-{n}" for n, e in enumerate(pool.endpoints) if e.weight and e.backup]
    yield from _balance(listener, pool, main, hit, route)
    if pool.max_per_endpoint is not None and pool.queue is None and pool.max_per_endpoint * len(main) <= MOST:
        params = {"request": hit, "most": pool.max_per_endpoint * len(main), "status": 503, "hold_ms": _hold(route)}
        if not backups:
            chosen = pool.balance in _CHOSEN and len(main) > 1
            features = (str(Feature.MAX_PER_ENDPOINT), *((f"{Feature.MAX_PER_ENDPOINT}.chosen",) if chosen else ()))
            yield script_case("6.full", "concurrency_holds", hit, params, features, route.name)
    name = f"{pool.name}-{main[0][0]}"
    others = [f"{pool.name}-{n}" for n, _ in main[1:]] or backups
    if pool.balance in (Balance.SOURCE_HASH, Balance.HASH) and len(main) > 1:
        return  # one key meets one endpoint only
    common: dict[str, Any] = {"request": hit, "name": name, "others": others}
    if (active := pool.active) is not None:
        out = active.fall * active.interval + active.timeout + 1500
        back = active.rise * active.interval + active.timeout + pool.slow_start + 1500
        params = {**common, "out_ms": out, "back_ms": back}
        yield script_case("6.active", "failed_checks_take_out", hit, params, (str(Feature.HEALTH_ACTIVE),), route.name)
    retried = isinstance(route.action, Forward) and route.action.retries is not None
    if (passive := pool.passive) is not None and active is None and not retried and passive.failures <= 20:
        params = {**common, "failures": passive.failures, "eject_ms": passive.eject_for}
        yield script_case("6.passive", "failures_eject", hit, params, (str(Feature.HEALTH_PASSIVE),), route.name)


def _balance(
    listener: Listener, pool: Pool, main: list[tuple[int, Endpoint]], hit: Request, route: Route
) -> Iterator[ScheduledCase]:
    if len(main) < 2:
        return
    if pool.balance in (Balance.ROUND_ROBIN, Balance.RANDOM, Balance.LEAST_CONNECTIONS):
        total = sum(endpoint.weight for _, endpoint in main)
        even = pool.balance is not Balance.LEAST_CONNECTIONS or len({e.weight for _, e in main}) == 1
        share = {f"{pool.name}-{n}": _bounds(endpoint.weight / total) for n, endpoint in main}
        if even:
            yield _counted("6.balance", hit, "name", share, (), route)
    elif pool.balance is Balance.SOURCE_HASH and not hit.client.startswith("127."):
        clients = [distinct_client(80_000 + 251 * n, listener.access, route.access) for n in range(_KEYS)]
        requests = [replace(hit, client=each) for each in clients if each is not None]
        params = {"requests": requests, "several": True}
        if requests:
            yield script_case("6.balance", "equal_keys_stay", hit, params, (str(Feature.SOURCE_HASH),), route.name)
    elif pool.balance is Balance.HASH and pool.hash_key is not None:
        requests = [_hashed(hit, pool.hash_key, n) for n in range(_KEYS)]
        params = {"requests": requests, "several": True}
        yield script_case("6.balance", "equal_keys_stay", hit, params, (str(Feature.HASH),), route.name)


def _hashed(hit: Request, key: Key, number: int) -> Request:
    if key.kind is KeyKind.QUERY:
        return replace(hit, target=f"{hit.target}{'&' if '?' in hit.target else '?'}{key.name}=verify-{number}")
    value = f"verify-{number}"
    return with_headers(hit, ("Cookie", f"{key.name}={value}") if key.kind is KeyKind.COOKIE else (key.name, value))


def _counted(
    clause: str, hit: Request, by: str, share: dict[str, tuple[int, int]], features: tuple[str, ...], route: Route
) -> ScheduledCase:
    return script_case(
        clause, "shares_hold", hit, {"request": hit, "times": _TIMES, "by": by, "share": share}, features, route.name
    )


def _bounds(share: float) -> tuple[int, int]:
    """How many of `_TIMES` requests are drawn with that share, but for the rarest of runs."""
    off = _DEVIATIONS * sqrt(_TIMES * share * (1 - share))
    return max(0, floor(_TIMES * share - off)), min(_TIMES, ceil(_TIMES * share + off))
