"""Pools that cannot serve, or whose fields contradict each other or a UDP listener."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.network import Address
    from lbgen.spec.pool import Pool


def check(context: Context) -> None:
    """LB210 all weights zero, LB215 duplicate endpoints, LB216 health settings at odds."""
    udp = {to.pool for index in udp_routes(context) for to in context.model.routes[index].forward or ()}
    for name, pool in context.model.pools.items():
        field = f"pools.{name}"
        if not any(endpoint.weight for endpoint in pool.endpoints):
            message = "every endpoint has weight 0, so nothing is served"
            context.add("LB210", f"{field}.endpoints", message, "give one a weight of 1 or more")
        elif all(endpoint.backup or not endpoint.weight for endpoint in pool.endpoints):
            message = "every endpoint is a backup, so there is none to back up"
            context.add("LB216", f"{field}.endpoints", message, "drop backup: true from one")
        seen: dict[Address, int] = {}
        for index, endpoint in enumerate(pool.endpoints):
            key, address = endpoint.place
            if seen.setdefault(address, index) != index:
                message = f"{address} is also the address of endpoints[{seen[address]}]"
                hint = "write it once; to send it more traffic raise its weight"
                context.add("LB215", f"{field}.endpoints[{index}].{key}", message, hint)
        _health(context, f"{field}.health", pool, name in udp)


def _health(context: Context, field: str, pool: Pool, udp: bool) -> None:
    if pool.health is None or pool.health.active is None:
        return
    active, field = pool.health.active, f"{field}.active"
    if not active.interval or not active.timeout:
        key = "timeout" if active.interval else "interval"
        context.add("LB216", f"{field}.{key}", "a check without a time limit never ends", f"write {key}: 2s")
    elif active.timeout > active.interval:
        message = "a check may take longer than the interval between checks"
        context.add("LB216", field, message, "make timeout at most as long as interval")
    if active.path is None and "expect" in active.model_fields_set:
        message = "a connect check has no status to expect"
        context.add("LB216", f"{field}.expect", message, "add path:, or drop expect", key=True)
    if udp and active.port is None:
        message = "a udp pool is checked by a TCP connection, which needs a port of its own"
        context.add("LB216", field, message, "add port:")


_LISTENER = {
    "tls": "TLS needs TCP connections, and a udp listener takes datagrams",
    "proxy_protocol": "a PROXY header begins a TCP connection, and a udp listener takes datagrams",
}
_POOL = {
    "tls": "TLS needs TCP connections",
    "proxy_protocol": "a PROXY header begins a TCP connection",
}


def check_datagrams(context: Context) -> None:
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
