"""Advice on passwords and tokens that clients send in clear."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.plan.checks.context import Context, list_names

if TYPE_CHECKING:
    from lbgen.spec.route import Route


def check(context: Context) -> None:
    """LB238: routes take passwords or tokens on a listener without TLS that other hosts reach by themselves."""
    routes: dict[str, dict[str, str]] = {}  # by listener: each route and what its clients send
    for index, route in enumerate(context.model.routes):
        if what := _credentials(route):
            for name in context.expanded.listeners[index]:
                routes.setdefault(name, {})[route.name] = what
    for name, sent in routes.items():
        if not _is_private(context, name):
            kinds = " and ".join(sorted(set(sent.values())))
            message = f"route {list_names(sent)} takes {kinds}, which travel in clear here"
            hint = (
                "write tls: { certificates: [{ cert: FILE, key: FILE }] }, or trusted_proxies: [ADDRESS] of what ends "
                "TLS in front"
            )
            context.advise("LB238", f"listeners.{name}", message, hint)


def _credentials(route: Route) -> str:
    """What the clients of a route send to be admitted by the proxy itself; "" = nothing."""
    if route.auth is None:
        return ""
    return "passwords" if route.auth.basic is not None else "tokens" if route.auth.jwt is not None else ""


def _is_private(context: Context, name: str) -> bool:
    """Whether nobody on the way reads what clients send: TLS, this host alone, or something in front that ends TLS."""
    listener = context.model.listeners[name]
    if listener.tls is not None or listener.trusted_proxies or ip_address(listener.address).is_loopback:
        return True
    in_front = [
        user
        for pool_name, pool in context.model.pools.items()
        if pool.tier is not None and pool.listener == name
        for user in context.users(pool_name)
    ]
    return bool(in_front) and all(user.tls is not None for user in in_front)
