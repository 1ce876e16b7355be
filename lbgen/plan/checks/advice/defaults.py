"""Defaults at the top of a topology that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.plan.checks.datagrams import udp_routes

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lbgen.plan.checks.context import Context
    from lbgen.spec.listener import Listener
    from lbgen.spec.route import Route


def check(context: Context) -> None:
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
    if model.access_log is not None and all(x.protocol == "udp" for x in model.listeners.values()):
        yield "access_log", "there is no listener over TCP"
    if model.resolvers is not None and all(e.address.is_ip for p in model.pools.values() for e in p.endpoints):
        yield "resolvers", "every endpoint has an address"


def _mapping(
    model: BaseModel, key: str, inner: str, users: list[Listener] | list[Route], why: str, *, field: str = ""
) -> Iterator[tuple[str, str]]:
    """A default that all of `users` override, or that has no user."""
    if getattr(getattr(model, key), inner, None) is None:
        return
    if all(getattr(getattr(user, field or key), inner, None) is not None for user in users):
        yield f"{key}.{inner}", why
