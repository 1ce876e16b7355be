"""Routes that redirect or respond: a backend without servers for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.haproxy.quote import Sample, log_format
from lbgen.engines.haproxy.rewrites import TAIL
from lbgen.engines.haproxy.statements import Acl, Statement, acl, found, set_var, statement
from lbgen.engines.haproxy.view import ActionBackend
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Redirect, Respond

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.haproxy.matching import RouteKey
    from lbgen.plan.model import Listener, Plan

_PORTS = {"http": 80, "https": 443}


def action_backend(route_key: RouteKey, plan: Plan, listener: Listener) -> ActionBackend:
    """The backend of a route that redirects or responds."""
    route = plan.route(route_key.route)
    statements: Iterable[Statement]
    match route.action:
        case Redirect():
            statements = _redirect(route.action, route_key, listener)
        case Respond():
            statements = _respond(route.action, route.field)
        case Forward():
            raise ValueError(f"route {route.name} forwards")
        case _:
            assert_never(route.action)
    name = f"route:{listener.name}:{route_key.name}".replace("/", ":")
    return ActionBackend(Atom(name), Atom(route.field), tuple(statements))


def _redirect(redirect: Redirect, route_key: RouteKey, listener: Listener) -> Iterator[Statement]:
    scheme = redirect.scheme or listener.scheme
    port = redirect.port or (_PORTS[scheme] if redirect.scheme else listener.client_port)
    authority = (redirect.host or Sample("var(txn.host)"), "" if port == _PORTS[scheme] else f":{port}")

    def location(*path: str | Sample, when: tuple[Acl, ...] = ()) -> Statement:
        value = Literal(log_format(f"{scheme}://", *authority, *path, Sample("var(txn.query)")))
        directive = f"http-request return status {redirect.status} hdr Location"
        return statement(directive, value, when=when, origin=route_key.origin)

    yield set_var("txn.query", "url,regsub('^[^?]*',)", origin=route_key.origin)
    if redirect.host is None:  # only a request of HTTP/1.0 may lack a host
        own = f"[{listener.address}]" if ":" in listener.address else listener.address
        yield set_var("txn.host", f"str({own})", [~acl("var(txn.host) -m len 1:")], route_key.origin)
    if redirect.path is not None:
        yield location(redirect.path)
    elif redirect.prefix is None:
        yield location(Sample("path"))
    else:
        prefix = redirect.prefix.rstrip("/")
        if route_key.stripped is not None:
            yield location(f"{prefix}/", Sample(f"var({TAIL})"), when=(found(TAIL),))
        yield location(prefix or "/")


def _respond(respond: Respond, origin: str) -> list[Statement]:
    arguments: list[str | Literal] = []
    has_body = bool(respond.body) and respond.status not in (204, 304)
    after = []
    for name, value in respond.headers:
        if name == "content-type" and has_body:
            arguments += ["content-type", Literal(value)]
        elif name == "content-type":  # `http-request return` drops it where there is no body
            set_type = "http-after-response set-header content-type"
            after.append(statement(set_type, Literal(log_format(value)), origin=origin))
        else:
            arguments += ["hdr", Literal(name), Literal(log_format(value))]
    if has_body:
        arguments += ["string", Literal(respond.body)]
    return [statement(f"http-request return status {respond.status}", *arguments, origin=origin), *after]
