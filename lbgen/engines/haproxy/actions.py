"""Routes that redirect or respond: statements of the frontend, or a backend without servers for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.haproxy.quote import Sample, log_format
from lbgen.engines.haproxy.rewrites import first_segments
from lbgen.engines.haproxy.statements import Statement, statement
from lbgen.engines.haproxy.view import ActionBackend
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Redirect, Respond

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lbgen.engines.haproxy.matching import RouteKey
    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import Listener, Plan

_PORTS = {"http": 80, "https": 443}
_MOST_IN_PLACE = 8  # routes whose answers HAProxy tries one by one


def answer_in_place(
    route_keys: Sequence[RouteKey], plan: Plan, listener: Listener, per_route: PerRoute
) -> list[Statement] | None:
    """Statements of the frontend that answer for these routes; None where backends have to, as with many routes.

    Headers can be added to such an answer in a backend only; the access log recognizes a 503 without a server by that.
    """
    answers = [(each.name, statement) for each in route_keys for statement in _statements(each, plan, listener)]
    in_place = all(
        statement.directive.text.startswith("http-request") and "status 503" not in statement.directive.text
        for _, statement in answers
    )
    if len(route_keys) > _MOST_IN_PLACE or not in_place:
        return None
    return [per_route.restrict(statement, [name], name) for name, statement in answers]


def action_backend(route_key: RouteKey, plan: Plan, listener: Listener) -> ActionBackend:
    """The backend of a route that redirects or responds."""
    name = f"route:{listener.name}:{route_key.name}".replace("/", ":")
    origin = plan.route(route_key.route).field
    return ActionBackend(Atom(name), Atom(origin), tuple(_statements(route_key, plan, listener)))


def _statements(route_key: RouteKey, plan: Plan, listener: Listener) -> Iterable[Statement]:
    route = plan.route(route_key.route)
    match route.action:
        case Redirect():
            return _redirect(route.action, route_key, listener)
        case Respond():
            return _respond(route.action, route.field)
        case Forward():
            raise ValueError(f"route {route.name} forwards")
        case _:
            assert_never(route.action)


def _redirect(redirect: Redirect, route_key: RouteKey, listener: Listener) -> Iterator[Statement]:
    scheme = redirect.scheme or listener.scheme
    port = redirect.port or (_PORTS[scheme] if redirect.scheme else listener.client_port)
    authority = (redirect.host or Sample("var(txn.host)"), "" if port == _PORTS[scheme] else f":{port}")

    def location(*path: str | Sample) -> Statement:
        value = Literal(log_format(f"{scheme}://", *authority, *path))
        directive = f"http-request return status {redirect.status} hdr Location"
        return statement(directive, value, origin=route_key.origin)

    if redirect.path is None and redirect.prefix is None:
        yield location(Sample("pathq"))
    elif redirect.prefix is None or route_key.stripped is None:
        path = redirect.path or (redirect.prefix or "").rstrip("/") or "/"
        yield location(path, Sample("pathq,regsub(^[^?]*,)"))
    else:
        prefix = redirect.prefix.rstrip("/")
        rest = f"pathq,regsub({first_segments(route_key.stripped, not prefix)},{'' if prefix else '/'})"
        yield location(prefix, Sample(rest))


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
