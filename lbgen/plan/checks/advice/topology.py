"""Advice on listeners, pools, engines, defaults and tiers."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.installed import engine_names
from lbgen.plan.checks.context import Context, list_names
from lbgen.plan.checks.pools import udp_routes
from lbgen.plan.checks.references import unknown_engines
from lbgen.plan.field_scope import L7_LISTENER, L7_POOL, L7_ROUTE

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lbgen.spec.listener import Listener
    from lbgen.spec.route import Route


_READS = {"hosts", "priority", *L7_ROUTE}  # what a route says of requests
_HSTS = "strict-transport-security"


def check_listeners(context: Context) -> None:
    """LB264 L7 without use, LB271 client times without limit, LB279 HSTS that no browser obeys, LB294 open metrics."""
    metrics = context.model.metrics
    if metrics is not None and not ip_address(metrics.address).is_loopback:
        message = f"other hosts can read the metrics on {metrics.address}, without TLS or a password"
        context.advise("LB294", "metrics.address", message, "leave address out: 127.0.0.1")
    for name, listener in context.model.listeners.items():
        if listener.mode != "l7":
            continue
        routes = [(i, r) for i, r in enumerate(context.model.routes) if name in context.expanded.listeners[i]]
        if not any(_reads(context, listener, route) for _, route in routes):
            message = "every request is forwarded unchanged: nothing here needs L7"
            hint = "mode: l4 does the same at lower cost; keep l7 for X-Forwarded-For, request ids and logs"
            context.advise("LB264", f"listeners.{name}", message, hint)
        for field, key in _endless(listener, f"listeners.{name}"):
            message = f"{key}: 0s lets a client hold a connection for ever"
            context.advise("LB271", field, message, "write a time, such as 60s")
        if listener.tls is None:
            for index, route in routes:
                edits = route.response_headers
                if (
                    edits is not None
                    and _HSTS in {**edits.set, **edits.add}
                    and len(context.expanded.listeners[index]) == 1
                ):
                    message = f'browsers ignore {_HSTS} over plain HTTP, and listener "{name}" has no tls'
                    context.advise("LB279", f"routes[{index}].response_headers", message, "set it where TLS ends")


def _reads(context: Context, listener: Listener, route: Route) -> bool:
    """Whether the listener or the route uses anything that only exists in HTTP."""
    if any(getattr(listener, key) for key in ("tls", *L7_LISTENER)) or route.model_fields_set & _READS:
        return True
    targets = route.forward or []
    if any(target.request_headers is not None for target in targets):
        return True
    if route.timeouts is not None and (route.timeouts.response is not None or route.timeouts.request is not None):
        return True
    pools = [context.model.pools[target.pool] for target in targets]
    return any(getattr(pool, key) is not None for pool in pools for key in ("tls", *L7_POOL)) or any(
        pool.balance is not None and pool.balance.hash is not None for pool in pools
    )


def _endless(listener: Listener, field: str) -> Iterator[tuple[str, str]]:
    times = listener.timeouts
    for key in ("client_header", "client_body"):
        if times is not None and getattr(times, key) == 0:
            yield f"{field}.timeouts.{key}", key


def check_pools(context: Context) -> None:
    """LB267 no health, LB269 sticky without health, LB276 backup without health, LB277 TLS not verified,
    LB293 sticky without secret."""
    used = context.expanded.used_pools
    alone = []
    for name, pool in context.model.pools.items():
        if name not in used:
            continue
        field = f"pools.{name}"
        watched = pool.health is not None and (pool.health.active is not None or pool.health.passive is not None)
        if pool.sticky is not None and not watched:
            message = "clients stay with a failed endpoint, because nothing detects the failure"
            context.advise("LB269", f"{field}.sticky", message, "add health: { active: { path: /healthz } }")
        elif any(endpoint.backup for endpoint in pool.endpoints) and not watched:
            index = next(i for i, endpoint in enumerate(pool.endpoints) if endpoint.backup)
            message = "a backup takes over when the others are known to be down, and nothing checks them"
            context.advise("LB276", f"{field}.endpoints[{index}]", message, "add health: { passive: ... } or active")
        elif sum(bool(endpoint.weight) for endpoint in pool.endpoints) > 1 and not watched:
            alone.append(name)
        if pool.sticky is not None and pool.sticky.secret is None:
            message = "whoever knows the topology's name can compute which cookie belongs to which endpoint's address"
            hint = "add secret: FILE (`openssl rand -hex 32 > FILE`) to sticky"
            context.advise("LB293", f"{field}.sticky", message, hint)
        if pool.tls is not None and not pool.tls.verify:
            message = "any certificate is accepted, so that traffic can be intercepted"
            context.advise("LB277", f"{field}.tls.verify", message, "name the ca: and drop verify: false")
    if alone:
        message = f"pool {list_names(alone)} has no health checks: a failed endpoint keeps its share of the traffic"
        hint = "add health: { active: { path: /healthz } } (no path on l4), or passive: { failures: 5, eject_for: 10s }"
        context.advise("LB267", f"pools.{alone[0]}", message, hint)


def check_engines(context: Context) -> None:
    """LB280 text for one engine, LB289 an engine that may be installed elsewhere."""
    for name in unknown_engines(context):
        message = f"is not an installed engine (installed: {', '.join(engine_names())}), so nothing reads it"
        context.advise("LB289", f"engines.{name}", message, "install its package, or drop it", key=True)
    for name, block in context.model.engines.items():
        for point in block.verbatim:
            message = f"this text is for {name} only: no other engine gets it, and lbgen cannot verify it"
            context.advise("LB280", f"engines.{name}.{point}", message, "use fields of the topology where they exist")


def check_defaults(context: Context) -> None:
    """LB288, for defaults in the user's own file; a profile serves topologies of all kinds."""
    for key, why in _idle(context):
        if context.topology.wrote(key):
            context.advise("LB288", key, f"has no effect: {why}", "drop it", key=True)


def _idle(context: Context) -> Iterator[tuple[str, str]]:
    model = context.model
    l7 = [listener for listener in model.listeners.values() if listener.mode == "l7"]
    udp = set(udp_routes(context))
    forwards = [(n, route) for n, route in enumerate(model.routes) if route.forward is not None]
    requests = [route for n, route in forwards if context.expanded.is_l7(n)]
    connections = [route for n, route in forwards if n not in udp]
    ends = [x for x in model.listeners.values() if x.terminates_tls]
    every = [route for _, route in forwards]
    yield from _mapping(model, "timeouts", "connect", connections, "no route that opens connections uses it")
    yield from _mapping(model, "timeouts", "idle", every, "no route that forwards uses it")
    for key in ("response", "request"):
        yield from _mapping(model, "timeouts", key, requests, "no route that forwards requests uses it")
    for key in ("client_header", "client_body", "keepalive"):
        own = "client_timeouts", key, l7
        yield from _mapping(model, *own, "no l7 listener uses it", field="timeouts")
    for key in ("headers", "target"):
        yield from _mapping(model, "limits", key, l7, "no l7 listener uses it")
    for key in ("request", "response"):
        yield from _mapping(model, "buffering", key, requests, "no route that forwards requests uses it")
    if model.max_body is not None and all(route.max_body is not None for route in requests):
        yield "max_body", "no route that forwards requests uses it"
    if model.paths is not None and all(listener.paths is not None for listener in l7):
        yield "paths", "no l7 listener uses it"
    if model.headers_with_underscores is not None and all(x.headers_with_underscores is not None for x in l7):
        yield "headers_with_underscores", "no l7 listener uses it"
    if model.tls is not None and all(x.tls is not None and (x.tls.policy or x.tls.min_version) for x in ends):
        yield "tls", "no listener that terminates TLS uses it"
    for key in ("forwarded_headers", "request_id"):
        if getattr(model, key) is not None and not requests:
            yield key, "no route forwards requests"
    if model.response_headers is not None and not l7:
        yield "response_headers", "there is no l7 listener"
    if model.error_pages is not None and not l7:
        yield "error_pages", "there is no l7 listener"
    if model.access_log is not None and all(x.protocol == "udp" for x in model.listeners.values()):
        yield "access_log", "there is no listener over TCP"
    if model.resolvers is not None and all(e.place[1].is_ip for p in model.pools.values() for e in p.endpoints):
        yield "resolvers", "every endpoint has an address"


def _mapping(
    model: BaseModel, key: str, inner: str, users: list[Listener] | list[Route], why: str, *, field: str = ""
) -> Iterator[tuple[str, str]]:
    """A default that all of `users` override, or that has no user."""
    if getattr(getattr(model, key), inner, None) is None:
        return
    if all(getattr(getattr(user, field or key), inner, None) is not None for user in users):
        yield f"{key}.{inner}", why


def check_tiers(context: Context) -> None:
    """LB281 hidden client addresses, LB282 TLS that ends in front, LB283 an L4 tier behind an L7 one."""
    model = context.model
    for name, pool in model.pools.items():
        if pool.tier is None:
            continue
        field, listener = f"pools.{name}", model.listeners[pool.listener or ""]
        users = context.users(name)
        if listener.mode == "l4":
            if any(user.mode == "l7" for user in users):
                message = f'tier "{pool.tier}" only forwards what an L7 tier has balanced already'
                context.advise("LB283", f"{field}.tier", message, "drop that tier, or put it in front")
            continue
        _addresses(context, field, users, listener, pool.listener or "")
        if listener.tls is None and any(user.terminates_tls and user.mode == "l4" for user in users):
            message = "TLS ends in front, so X-Forwarded-Proto and redirects say http"
            hint = f'pass it through (tls: {{ mode: passthrough }}) and terminate it on listener "{pool.listener}"'
            context.advise("LB282", field, message, hint)


def _addresses(context: Context, field: str, users: list[Listener], listener: Listener, name: str) -> None:
    """The peer of the inner tier is the tier in front, unless it accepts a PROXY header or trusts X-Forwarded-For."""
    if listener.proxy_protocol is not None:
        return
    message = (
        f'listener "{name}" sees the address of the tier in front for every client (X-Forwarded-For, access, limits)'
    )
    if any(user.mode == "l4" for user in users):
        hint = (
            f"write proxy_protocol: v2 here and proxy_protocol: accept on listeners.{name}; in front it needs a proxy, "
            "as what forwards in the kernel cannot add a PROXY header"
        )
        context.advise("LB281", field, message, hint)
    elif not listener.trusted_proxies:
        hint = f"name the tier in front in trusted_proxies of listeners.{name}, so that its X-Forwarded-For counts"
        context.advise("LB281", field, message, hint)
