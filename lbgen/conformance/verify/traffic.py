"""Cases of everyday clients (gRPC calls, events, uploads, kept connections, a line in the log), and of many requests:
rates, limits, splits and mirrors; `pools` has those of each pool."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from lbgen.conformance.verify import pools
from lbgen.conformance.verify.cases import (
    STICKY,
    ScheduledCase,
    alone_case,
    distinct_client,
    is_served,
    reached_fields,
    route_requests,
    script_case,
    with_headers,
)
from lbgen.conformance.verify.coverage import named
from lbgen.conformance.verify.pools import MOST, TIMES, deviation_bounds, hold_time
from lbgen.plan.model import Forward, Listener, Mode, Plan, PoolProtocol, Route
from lbgen.plan.policy import REPLAYED_BODY, Key, KeyKind, RateLimit
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate

_REFILL = 3  # seconds in which tokens that other cases took have surely come back
_RAREST = 0.04  # share of a pool whose answers are waited for
_UPLOAD = 400_000  # bytes, more than a proxy holds by itself
_TOGETHER = 4  # requests on a kept connection
_EVENTS_MS = 1_000  # that a stream of events takes


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
            yield from _limits(plan, route, hit)
            if isinstance(route.action, Forward) and route.rate_limit is None and route.concurrency is None:
                yield from _forwarded(plan, route, route.action, hit, seen)


def _limits(plan: Plan, route: Route, hit: Request) -> Iterator[ScheduledCase]:
    rate, most = route.rate_limit, route.concurrency
    spent = rate is not None and _shares_tokens(rate, hit.client) and rate.burst * rate.seconds > _REFILL * rate.amount
    if (
        rate is not None
        and not spent
        and rate.burst <= MOST
        and (asked := _keyed(plan, route, hit, rate.key, 1)) is not None
    ):
        params = {"request": asked, "burst": rate.burst, "per_second": rate.amount / rate.seconds}
        yield alone_case("5.rate", "rate_holds", hit, params, ("route.rate_limit",), route.name)
    enough = rate is None or rate.burst > (most.max if most is not None else 0) + 2
    if most is None or most.max > MOST or not isinstance(route.action, Forward) or not enough:
        return
    if (asked := _keyed(plan, route, hit, most.key, 2)) is not None:
        params = {"request": asked, "most": most.max, "status": 429, "hold_ms": hold_time(route)}
        yield alone_case("5.concurrency", "concurrency_holds", hit, params, ("route.concurrency",), route.name)


def _shares_tokens(rate: RateLimit, client: str) -> bool:
    """Whether all requests of a verification are counted together: on loopback they come from one client."""
    return rate.key.kind is KeyKind.ROUTE or (rate.key.kind is KeyKind.CLIENT_IP and client.startswith("127."))


def _keyed(plan: Plan, route: Route, hit: Request, key: Key, number: int) -> Request | None:
    """`hit` with a value of the key that no other case uses; None when there is none."""
    if key.kind is KeyKind.HEADER:
        return with_headers(hit, (key.name, f"verify-{number}"))
    if key.kind is not KeyKind.CLIENT_IP or hit.client.startswith("127."):
        return hit
    client = distinct_client(90_000 + number, plan.listener(hit.listener).access, route.access)
    asked = hit if client is None else replace(hit, client=client)
    return asked if client is not None and is_served(plan, route, asked) else None


def _forwarded(plan: Plan, route: Route, action: Forward, hit: Request, seen: set[str]) -> Iterator[ScheduledCase]:
    targets = [target for target in action.targets if target.weight]
    total = sum(target.weight for target in targets)
    if len(targets) > 1:
        share = {target.pool: deviation_bounds(target.weight / total) for target in targets}
        params = {"request": hit, "times": TIMES, "by": "pool", "share": share}
        tried = tuple(field for target in targets for field in reached_fields(plan.pool(target.pool)))
        yield alone_case(
            "4.split", "shares_hold", hit, params, ("route.forward.split", STICKY), route.name, tried=tried
        )
    for mirror in action.mirrors:
        low, high = deviation_bounds(mirror.percent / 100)
        params = {"request": hit, "pool": mirror.pool, "times": TIMES, "copies": (low, high)}
        if mirror.pool not in {target.pool for target in targets}:
            pool = plan.pool(mirror.pool)
            tried = (*reached_fields(pool), f"{pool.field}.protocol", f"{pool.field}.tls")
            yield alone_case("4.mirror", "copies_reach_mirror", hit, params, ("route.mirror",), route.name, tried=tried)
            if f"pool {pool.name}" not in seen:
                seen.add(f"pool {pool.name}")
                yield pools.kept_case(pool, hit, route, "route.mirror.kept")
    for target in targets:
        if f"pool {target.pool}" not in seen and target.weight / total >= _RAREST:
            seen.add(f"pool {target.pool}")
            of = target.pool if len(targets) > 1 else ""
            access = (plan.listener(hit.listener).access, route.access)
            yield from pools.pool_cases(plan, plan.pool(target.pool), hit, route, access, of)


def everyday_cases(plan: Plan, client: str) -> Iterator[ScheduledCase]:
    """What clients do with each route, at the first listener that serves it."""
    seen: set[str] = set()
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            continue
        found = [(route, hit) for route, hit in route_requests(plan, listener, client) if not _is_counted(route)]
        yield from _on_listener(plan, listener, found)
        for route, hit in found:
            if route.name not in seen and isinstance(route.action, Forward):
                seen.add(route.name)
                yield from _on_route(plan, route, route.action, hit)


def _is_counted(route: Route) -> bool:
    return route.rate_limit is not None or route.concurrency is not None


def _on_listener(plan: Plan, listener: Listener, found: list[tuple[Route, Request]]) -> Iterator[ScheduledCase]:
    if found and listener.access_log:
        route, hit = found[0]
        params = {"request": hit, "route": route.name}
        features = ("access_log",)
        yield alone_case("10.log", "request_is_logged", hit, params, features, route.name)
    if found and plan.metrics is not None:
        route, hit = found[0]
        params = {"request": hit, "route": route.name}
        yield alone_case("10.metrics", "requests_are_counted", hit, params, (), route.name, tried=("metrics",))
    plain = [
        (route, hit)
        for route, hit in found
        if isinstance(route.action, Forward) and all(target.weight for target in route.action.targets)
    ]
    most = listener.max_connections
    if plain and most is not None and most <= MOST:
        route, hit = plain[0]
        params = {"request": hit, "most": most}
        features = ("listener.max_connections.held",)
        yield alone_case("5.connections", "connections_are_limited", hit, params, features, route.name)
    hosts = {hit.headers[:1] for _, hit in plain}
    if listener.tls is not None and len(hosts) > 1:  # a connection is of one server name
        plain = [(route, hit) for route, hit in plain if hit.headers[:1] == plain[0][1].headers[:1]]
    if plain:
        chosen = plain[:_TOGETHER]
        params = {"requests": [hit for _, hit in chosen]}
        names = [route.name for route, _ in chosen]
        targets = [plan.pool(target.pool) for route, _ in chosen for target in getattr(route.action, "targets", ())]
        excuses = (STICKY,) if any(pool.sticky is not None for pool in targets) else ()
        yield script_case("4.kept-connection", "kept_connection_serves", plain[0][1], params, excuses, *names)


def _on_route(plan: Plan, route: Route, action: Forward, hit: Request) -> Iterator[ScheduledCase]:
    listener = plan.listener(hit.listener)
    pools = [plan.pool(target.pool) for target in action.targets if target.weight]
    protocols = {pool.protocol for pool in pools}
    names = [f"{pool.name}-{n}" for pool in pools for n, _ in enumerate(pool.endpoints)]
    post = replace(hit, method="POST")
    posts = simulate(plan, post).route == route.name
    if protocols == {PoolProtocol.GRPC} and listener.http2 and posts:
        yield alone_case("4.grpc", "grpc_calls", hit, {"request": hit}, (), route.name)
    if hit.method == "GET" and not action.buffering.response and _may_take(action, _EVENTS_MS):
        times = [x for x in (action.timeouts.idle, action.timeouts.response) if x]
        params = {"request": hit, "pause_ms": min([200, *(time // 6 for time in times)])}
        yield script_case("4.events", "events_arrive", hit, params, ("route.buffering",), route.name)
    if hit.method == "GET" and action.buffering.response:
        params = {"request": hit, "names": names}
        tried = (f"{named(plan, route.field)}.buffering.response",)
        yield alone_case("4.answer", "answer_is_taken", hit, params, ("route.buffering",), route.name, tried=tried)
    size = min(_UPLOAD, route.max_body or _UPLOAD)
    if posts and size > 1 and PoolProtocol.GRPC not in protocols:
        buffered = action.buffering.request
        # Retries may keep the first bytes for another try; over HTTP/2 endpoints see no bytes before the whole.
        tells = protocols == {PoolProtocol.HTTP1} and size > 4 * REPLAYED_BODY
        params = {"request": hit, "size": size, "names": names, "buffered": buffered, "tells": tells}
        features = ("route.buffering", *(("route.mirror.upload",) if action.mirrors else ()))
        yield alone_case("4.upload", "upload_passes", hit, params, features, route.name)


def _may_take(action: Forward, milliseconds: int) -> bool:
    return not action.timeouts.request or action.timeouts.request > 2 * milliseconds
