"""L7 fields where bytes are forwarded, and L4 fields where requests are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lbgen.plan.checks.context import Context, list_names
from lbgen.plan.field_scope import L7_CONNECTIONS, L7_LISTENER, L7_POOL, L7_ROUTE, L7_TIMES

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lbgen.spec.route import Route


def check(context: Context) -> None:
    """LB206 L7 on L4, LB207 the reverse or both, LB209 an L4 route without listeners, LB217 a pool of both."""
    _listeners(context)
    layers: dict[str, dict[str, str]] = {}  # pool -> layer -> a route that uses it there
    l4 = [name for name, listener in context.model.listeners.items() if listener.mode == "l4"]
    only_l4 = len(l4) == len(context.model.listeners)
    for index, (route, modes) in enumerate(zip(context.model.routes, context.expanded.modes, strict=True)):
        if len(modes) > 1:
            message = "is attached to l4 and l7 listeners"
            context.add("LB207", f"routes[{index}].listeners", message, "write a route for each")
            continue
        if l4 and route.listeners is None and (only_l4 or route.sources is not None):  # it can only be meant for l4
            hint = f"write listeners: [{l4[0]}]"
            context.add("LB209", f"routes[{index}]", "an l4 route must name its listeners", hint)
            continue
        layer = next(iter(modes), "l7")
        if layer == "l4":
            _l4_route(context, f"routes[{index}]", index, route)
        elif route.sources is not None:
            message, networks = "sources of a route is for l4 routes", ", ".join(route.sources)
            hint = f"write match: [{{ sources: [{networks}] }}]; access: {{ allow: [...] }} answers others with 403"
            context.add("LB207", f"routes[{index}].sources", message, hint, key=True)
        for target in route.forward or ():
            layers.setdefault(target.pool, {}).setdefault(layer, route.name)
        if layer == "l7" and route.auth is not None and route.auth.forward is not None and route.auth.forward.pool:
            layers.setdefault(route.auth.forward.pool, {}).setdefault("l7", route.name)
    for name, users in layers.items():
        if name in context.model.pools:
            _pool(context, name, users)


def _set(model: BaseModel, keys: Iterable[str]) -> list[str]:
    return [key for key in keys if getattr(model, key) not in (None, [])]


def _listeners(context: Context) -> None:
    for name, listener in context.model.listeners.items():
        field = f"listeners.{name}"
        if listener.mode == "l4":
            for key in _set(listener, L7_LISTENER):
                message = f"{key} is for l7 listeners; an l4 listener forwards bytes"
                context.add("LB206", f"{field}.{key}", message, "drop it, or write mode: l7", key=True)
        else:
            if listener.ports is not None:
                message = "a range of ports is for l4 listeners"
                context.add("LB207", f"{field}.ports", message, "write port, or mode: l4", key=True)
            if listener.protocol is not None:
                message = "protocol is for l4 listeners; an l7 listener speaks HTTP over TCP"
                context.add("LB207", f"{field}.protocol", message, "drop it, or write mode: l4", key=True)
            if listener.tls is not None and listener.tls.mode == "passthrough":
                message = "with TLS passthrough no request can be read"
                context.add("LB207", f"{field}.tls.mode", message, "write mode: l4 on the listener")


def _l4_route(context: Context, field: str, index: int, route: Route) -> None:
    for key in _set(route, L7_ROUTE):
        place = f"{field}.{key}"
        hint = "an l4 route has hosts (TLS server names), sources, forward, timeouts and access"
        if context.topology.marks.origin(place) != place:
            hint = "name a policy with it on l7 routes or listeners alone"
        context.add("LB206", place, f"{key} needs an l7 listener", hint, key=True)
    for key in _set(route.timeouts, L7_TIMES) if route.timeouts is not None else ():
        message = f"{key} needs an l7 listener: l4 sees no responses"
        context.add("LB206", f"{field}.timeouts.{key}", message, "on l4 there are connect and idle", key=True)
    for n, target in enumerate(route.forward or ()):
        if target.request_headers is not None:
            message = "request_headers needs an l7 listener"
            context.add("LB206", f"{field}.forward[{n}].request_headers", message, "drop it", key=True)
    if route.hosts is not None:
        names = context.expanded.listeners[index]
        plain = [name for name in names if context.model.listeners[name].tls is None]
        if plain:
            message = f"hosts of an l4 route are TLS server names, and listener {list_names(plain)} has no tls"
            context.add("LB206", f"{field}.hosts", message, "write tls: { mode: passthrough } there", key=True)


def _pool(context: Context, name: str, users: dict[str, str]) -> None:
    pool, field = context.model.pools[name], f"pools.{name}"
    if len(users) > 1:
        message = f'is used by l4 route "{users["l4"]}" and by l7 route "{users["l7"]}"'
        context.add(
            "LB217", field, message, "write a pool for each: l4 and l7 routes cannot share connections", key=True
        )
    if "l4" not in users:
        return
    by = f'needs l7, and l4 route "{users["l4"]}" uses this pool'
    for key in _set(pool, L7_POOL):
        context.add("LB206", f"{field}.{key}", f"{key} {by}", "drop it", key=True)
    if pool.balance is not None and pool.balance.hash is not None:
        hint = "write balance: source_hash"
        context.add("LB206", f"{field}.balance", f"a hash of headers, cookies or the query {by}", hint)
    for key in _set(pool.connections, L7_CONNECTIONS) if pool.connections is not None else ():
        context.add("LB206", f"{field}.connections.{key}", f"{key} {by}", "drop it", key=True)
