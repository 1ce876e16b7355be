"""Fields of TCP connections on UDP listeners and on their routes and pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context

_LISTENER = {
    "tls": "TLS needs TCP connections, and a udp listener takes datagrams",
    "proxy_protocol": "a PROXY header begins a TCP connection, and a udp listener takes datagrams",
}
_POOL = {
    "tls": "TLS needs TCP connections",
    "proxy_protocol": "a PROXY header begins a TCP connection",
}


def check(context: Context) -> None:
    """LB226: nothing of TLS, PROXY headers or the time to connect applies to datagrams."""
    for name, listener in context.model.listeners.items():
        if listener.protocol == "udp":
            for key, message in _LISTENER.items():
                if getattr(listener, key) is not None:
                    context.add(
                        "LB226", f"listeners.{name}.{key}", message, "drop it, or write protocol: tcp", key=True
                    )
    pools: dict[str, str] = {}
    for index in udp_routes(context):
        route = context.model.routes[index]
        if route.timeouts is not None and route.timeouts.connect is not None:
            field = f"routes[{index}].timeouts.connect"
            context.add("LB226", field, "datagrams open no connection", "drop it; on udp there is idle", key=True)
        for target in route.forward or ():
            pools.setdefault(target.pool, route.name)
    for name, route_name in pools.items():
        pool = context.model.pools.get(name)
        for key, why in _POOL.items() if pool is not None else ():
            if getattr(pool, key) is not None:
                message = f'{why}, and udp route "{route_name}" sends datagrams to this pool'
                context.add("LB226", f"pools.{name}.{key}", message, "drop it, or write another pool", key=True)


def udp_routes(context: Context) -> Iterator[int]:
    """The numbers of routes on UDP listeners."""
    udp = {name for name, listener in context.model.listeners.items() if listener.protocol == "udp"}
    listeners = context.expanded.listeners if udp else ()
    return (index for index, names in enumerate(listeners) if not udp.isdisjoint(names))
