"""Routes whose timeouts, retries, limits or CORS contradict each other or are likely unintended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.diagnostics import Severity
from lbgen.plan.checks.context import Context, list_names
from lbgen.plan.policy import IDEMPOTENT
from lbgen.plan.resolve_policies import forward_timeouts

if TYPE_CHECKING:
    from lbgen.plan.model import Timeouts
    from lbgen.spec.policy import Cors, Retries
    from lbgen.spec.route import Route

SLOWER = 10  # so many times the response time of another route of the pool is another kind of work
_COMPRESSED = ("image/", "video/", "audio/", "font/woff", "application/zip", "application/gzip")
_TEXTS = ("image/svg+xml",)


def check(context: Context) -> None:
    """LB261 to LB263, LB266, LB268, LB270 to LB275, LB278."""
    model = context.model
    times: dict[int, Timeouts] = {}
    for index, route in enumerate(model.routes):
        field = f"routes[{index}]"
        if route.forward is not None and not context.expanded.is_l4(index):
            times[index] = found = forward_timeouts(route.timeouts, model.timeouts)
            _times(context, field, route, found)
            _mirrors(context, field, route)
        if route.retries is not None and route.retries.max:
            _retries(context, field, route, route.retries, times.get(index))
        _cors(context, field, route)
        _keys(context, field, route, index)
        for n, media in enumerate(route.compression.types if route.compression is not None else ()):
            if media.startswith(_COMPRESSED) and media not in _TEXTS:
                message = f"{media} is compressed already: gzip costs time and gains nothing"
                context.advise("LB275", f"{field}.compression.types[{n}]", message, "drop it")
    _shared(context, times)
    _bodies(context)


def _times(context: Context, field: str, route: Route, times: Timeouts) -> None:
    written = route.timeouts
    for key in ("connect", "response", "idle"):
        if written is not None and getattr(written, key) == 0:
            message = f"{key}: 0s waits for ever on an endpoint that hangs"
            context.advise("LB271", f"{field}.timeouts.{key}", message, "write a time, such as 60s")
    if times.request and times.response > times.request:
        whole, response = _shown(times.request), _shown(times.response)
        message = f"the whole request ends after {whole}, before the {response} of response can pass"
        context.advise("LB278", f"{field}.timeouts", message, "make response shorter than request")


def _retries(context: Context, field: str, route: Route, retries: Retries, times: Timeouts | None) -> None:
    if retries.methods == "all" and set(retries.on) - {"connect_failure"}:
        methods = {method for match in route.match or [] for method in match.methods or ()}
        if not methods or methods - set(IDEMPOTENT):
            message = "a request that is not idempotent, such as POST, may be carried out twice"
            hint = "drop methods: all, or limit the match to methods that may be repeated"
            context.advise("LB261", f"{field}.retries.methods", message, hint)
    if times is not None and "timeout" in retries.on:
        total = (retries.max + 1) * times.response
        if times.request and total > times.request:
            message = (
                f"{retries.max + 1} tries of {_shown(times.response)} each are {_shown(total)}, "
                f"more than the {_shown(times.request)} of the whole request: the last is cut short"
            )
            context.advise("LB262", f"{field}.retries", message, "shorten response, or allow fewer tries")
        elif not times.request and times.response:
            message = f"a client may wait {_shown(total)}: {retries.max + 1} tries of {_shown(times.response)} each"
            hint = "write timeouts: { request: ... } with what a client will wait, or shorten response"
            context.advise("LB262", f"{field}.retries", message, hint)
    endpoints = [
        endpoint
        for target in route.forward or ()
        if target.pool in context.model.pools
        for endpoint in context.model.pools[target.pool].endpoints
        if endpoint.weight or endpoint.backup
    ]
    if len(route.forward or ()) == 1 and len(endpoints) == 1:
        message = "the pool has one endpoint, which gets every retry"
        context.advise("LB272", f"{field}.retries", message, "add an endpoint, or drop retries")


def _shared(context: Context, times: dict[int, Timeouts]) -> None:
    """Slow routes hold the connections and workers that fast ones of the same pool need."""
    routes = context.model.routes
    by_pool: dict[str, list[int]] = {}
    for index in times:
        for target in routes[index].forward or ():
            by_pool.setdefault(target.pool, []).append(index)
    for pool, users in by_pool.items():
        limited = [index for index in users if times[index].response]
        if len(limited) < 2:
            continue
        slow, fast = max(limited, key=lambda i: times[i].response), min(limited, key=lambda i: times[i].response)
        if times[slow].response >= SLOWER * times[fast].response:
            message = (
                f'slow route "{routes[slow].name}" ({_shown(times[slow].response)}) and fast route '
                f'"{routes[fast].name}" ({_shown(times[fast].response)}) share its connections and endpoints'
            )
            context.advise("LB263", f"pools.{pool}", message, "give the slow one a pool of its own")


def _bodies(context: Context) -> None:
    """Once for a topology, at its first route that takes bodies."""
    if context.model.max_body is not None:
        return
    open_ended = [
        (index, route.name)
        for index, route in enumerate(context.model.routes)
        if route.forward is not None and not context.expanded.is_l4(index) and route.max_body is None
    ]
    if open_ended:
        names = list_names(name for _, name in open_ended)
        message = f"bodies of any size reach the endpoints of route {names}"
        context.advise("LB266", f"routes[{open_ended[0][0]}]", message, "write max_body: 10MiB, or what is needed")


def _cors(context: Context, field: str, route: Route) -> None:
    cors: Cors | None = route.cors
    if cors is None:
        return
    if "*" in cors.origins and cors.credentials:
        message = "any page could act with a visitor's cookies, and browsers refuse * with credentials"
        hint = "list the origins, or drop credentials: true"
        context.add("LB273", f"{field}.cors", message, hint, Severity.ERROR)
    if "null" in cors.origins and cors.credentials:
        message = "any page could act with a visitor's cookies, from a frame that it sandboxes"
        context.add("LB273", f"{field}.cors", message, "drop null, or credentials: true", Severity.WARNING)
    without = [
        n for n, match in enumerate(route.match or []) if match.methods is not None and "OPTIONS" not in match.methods
    ]
    if without and len(without) == len(route.match or []):
        message = "browsers send an OPTIONS request first, which this route does not match"
        context.advise("LB268", f"{field}.match[{without[0]}].methods", message, "add OPTIONS to methods")


def _keys(context: Context, field: str, route: Route, index: int) -> None:
    listeners = [context.model.listeners[name] for name in context.expanded.listeners[index]]
    blind = all(not x.trusted_proxies and x.proxy_protocol is None for x in listeners)
    for key, limit in (("rate_limit", route.rate_limit), ("concurrency", route.concurrency)):
        if limit is not None and limit.key.by == "client_ip" and blind:
            message = "behind a proxy or CDN all clients have its address and share one limit"
            hint = "name it in trusted_proxies of the listener; ignore this where clients connect directly"
            context.advise("LB270", f"{field}.{key}", message, hint)


def _mirrors(context: Context, field: str, route: Route) -> None:
    own = {target.pool for target in route.forward or ()}
    for n, mirror in enumerate(route.mirror or ()):
        if mirror.pool in own:
            message = f'copies go to pool "{mirror.pool}", which serves the route already'
            context.advise("LB274", f"{field}.mirror[{n}]", message, "mirror to another pool")


def _shown(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds % 1000 else f"{milliseconds // 1000} s"
