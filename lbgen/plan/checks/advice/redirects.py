"""Redirects that lead to a port on which nothing listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context

_HTTPS = 443


def check(context: Context) -> None:
    """LB290: a redirect to https without port, where TLS is on other ports only. The host stays the request's, so the
    client asks this topology again, on port 443."""
    ports = [x.port for x in context.model.listeners.values() if x.mode == "l7" and x.tls is not None]
    if not ports or _HTTPS in ports:
        return
    for index, route in enumerate(context.model.routes):
        to = route.redirect
        if to is None or to.scheme != "https" or to.port is not None or to.host is not None:
            continue
        if all(context.model.listeners[name].tls is not None for name in context.expanded.listeners[index]):
            continue
        shown = " and ".join(map(str, ports))
        message = f"the redirect leads to port {_HTTPS}, and TLS is on port {shown} here"
        hint = f"add port: {ports[0]}; ignore this where something in front maps {_HTTPS} to it"
        context.advise("LB290", f"routes[{index}].redirect", message, hint)
