"""Listeners that need no L7, have no client timeouts, or send HSTS without TLS."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.listener import Listener
    from lbgen.spec.route import Route

# What a route may say without needing to read requests.
_L4_ROUTE = {"name", "listeners", "forward", "timeouts", "access"}
_L7_LISTENER = ("tls", "http2", "trusted_proxies", "paths", "headers_with_underscores", "limits", "timeouts")
_L7_POOL = ("sticky", "protocol", "tls")
_HSTS = "strict-transport-security"


def check(context: Context) -> None:
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
    if any(getattr(listener, key) for key in _L7_LISTENER) or route.model_fields_set - _L4_ROUTE:
        return True
    targets = route.forward or []
    if any(target.request_headers is not None for target in targets):
        return True
    if route.timeouts is not None and (route.timeouts.response is not None or route.timeouts.request is not None):
        return True
    pools = [context.model.pools[target.pool] for target in targets]
    return any(getattr(pool, key) is not None for pool in pools for key in _L7_POOL) or any(
        pool.balance is not None and pool.balance.hash is not None for pool in pools
    )


def _endless(listener: Listener, field: str) -> Iterator[tuple[str, str]]:
    times = listener.timeouts
    for key in ("client_header", "client_body"):
        if times is not None and getattr(times, key) == 0:
            yield f"{field}.timeouts.{key}", key
