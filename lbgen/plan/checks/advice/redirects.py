"""Redirects that lead to a port on which nothing listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context

_HTTPS = 443


def check(context: Context) -> None:
    """LB290: a redirect to https that leads to a port without TLS. The host stays the request's: the client asks this
    topology again. Proxies in front, which listeners trust, may speak TLS for it."""
    listeners = context.model.listeners
    ports = [x.port for x in listeners.values() if x.tls is not None]
    for index, route in enumerate(context.model.routes):
        to = route.redirect
        if to is None or to.scheme != "https" or to.host is not None:
            continue
        port = to.port if to.port is not None else _HTTPS
        names = context.expanded.listeners[index]
        behind_proxies = not ports and any(listeners[name].trusted_proxies for name in names)
        if port in ports or behind_proxies or (to.port is None and all(listeners[x].tls is not None for x in names)):
            continue
        here = f"TLS is on port {' and '.join(map(str, ports))} here" if ports else "no listener speaks TLS here"
        message = f"the redirect leads to port {port}, and {here}"
        what = f"{'write' if to.port is not None else 'add'} port: {ports[0]}" if ports else "add a listener with tls:"
        hint = f"{what}; ignore this where something in front speaks TLS on {port}"
        context.advise("LB290", f"routes[{index}].redirect", message, hint)
