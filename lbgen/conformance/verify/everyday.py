"""Cases of everyday clients: gRPC calls, streams of events, uploads, kept connections, and the line in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.conformance.verify.cases import Phase, ScheduledCase, route_requests, script_case
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Listener, Mode, Plan, PoolProtocol, Route
from lbgen.plan.policy import REPLAYED_BODY
from lbgen.plan.simulate import simulate
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.plan.request import Request

_UPLOAD = 400_000  # bytes, more than a proxy holds by itself
_TOGETHER = 4  # requests on a kept connection
_EVENTS_MS = 1_000  # that a stream of events takes


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
        one = script_case("10.log", "request_is_logged", hit, params, (str(Feature.ACCESS_LOG),), route.name)
        yield replace(one, phase=Phase.ALONE)
    plain = [
        (route, hit)
        for route, hit in found
        if isinstance(route.action, Forward) and all(target.weight for target in route.action.targets)
    ]
    hosts = {hit.headers[:1] for _, hit in plain}
    if listener.tls is not None and len(hosts) > 1:  # a connection is of one server name
        plain = [(route, hit) for route, hit in plain if hit.headers[:1] == plain[0][1].headers[:1]]
    if plain:
        chosen = plain[:_TOGETHER]
        params = {"requests": [hit for _, hit in chosen]}
        names = [route.name for route, _ in chosen]
        yield script_case("4.kept-connection", "kept_connection_serves", plain[0][1], params, (), *names)


def _on_route(plan: Plan, route: Route, action: Forward, hit: Request) -> Iterator[ScheduledCase]:
    listener = plan.listener(hit.listener)
    pools = [plan.pool(target.pool) for target in action.targets if target.weight]
    protocols = {pool.protocol for pool in pools}
    names = [f"{pool.name}-{n}" for pool in pools for n, _ in enumerate(pool.endpoints)]
    post = replace(hit, method="POST")
    posts = simulate(plan, post).route == route.name
    if protocols == {PoolProtocol.GRPC} and listener.http2 and posts:
        yield _alone(script_case("4.grpc", "grpc_calls", hit, {"request": hit}, (), route.name))
    if hit.method == "GET" and not action.buffering.response and _may_take(action, _EVENTS_MS):
        times = [x for x in (action.timeouts.idle, action.timeouts.response) if x]
        params = {"request": hit, "pause_ms": min([200, *(time // 6 for time in times)])}
        yield script_case("4.events", "events_arrive", hit, params, (str(Feature.BUFFERING),), route.name)
    size = min(_UPLOAD, route.max_body or _UPLOAD)
    if posts and size > 1 and PoolProtocol.GRPC not in protocols:
        buffered = action.buffering.request
        # Retries may keep the first bytes for another try; over HTTP/2 endpoints see no bytes before the whole.
        tells = protocols == {PoolProtocol.HTTP1} and size > 4 * REPLAYED_BODY
        params = {"request": hit, "size": size, "names": names, "buffered": buffered, "tells": tells}
        yield _alone(script_case("4.upload", "upload_passes", hit, params, (str(Feature.BUFFERING),), route.name))


def _may_take(action: Forward, milliseconds: int) -> bool:
    return not action.timeouts.request or action.timeouts.request > 2 * milliseconds


def _alone(one: ScheduledCase) -> ScheduledCase:
    return replace(one, phase=Phase.ALONE)
