"""Rewrites of path and Host; routes that redirect or respond: statements of the frontend, or a backend without servers
for each."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, refused
from lbgen.engines.haproxy.matching import RouteKey
from lbgen.engines.haproxy.quote import Sample, argument, log_format
from lbgen.engines.haproxy.statements import Block, Statement, acl, block, statement
from lbgen.engines.haproxy.values import count_bytes, format_value
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.engines.text import Literal
from lbgen.plan.forwarding import redirect_value
from lbgen.plan.model import Listener, Plan, Redirect, Respond, Route
from lbgen.plan.values import Template, may_be_empty

LONGEST_BODY = 16_000  # bytes of a fixed response, which must fit into one buffer with its head
_PORTS = {"http": 80, "https": 443}
_MOST_IN_PLACE = 8  # routes whose answers HAProxy tries one by one


def _first_segments(count: int, with_slash: bool) -> str:
    """A regex that finds the first segments of a path, and with `with_slash` the slash behind them."""
    return "^" + "/[^/?]*" * count + "/?" * with_slash


def _rewrites(on: HttpListener) -> list[Statement]:
    """Set the path and Host of requests."""
    paths: dict[str, str] = {}
    prefixes: dict[tuple[int, bool], dict[str, str]] = {}
    hosts: dict[str, str] = {}
    for name, action in on.forwards.items():
        if action.rewrite is None:
            continue
        if action.rewrite.path is not None:
            paths[name] = action.rewrite.path
        elif action.rewrite.prefix is not None:
            prefix = action.rewrite.prefix.rstrip("/") or "/"
            if (stripped := on.keys[name].stripped) is None:
                paths[name] = prefix
            else:
                prefixes.setdefault((stripped, prefix == "/"), {})[name] = prefix
        if action.rewrite.host is not None:
            hosts[name] = action.rewrite.host
    statements = on.per_route.with_values(statement("http-request set-path"), paths, "path")
    for (stripped, is_root), values in sorted(prefixes.items()):
        replace = statement("http-request replace-path", Literal(f"{_first_segments(stripped, is_root)}(.*)"))
        purpose = f"prefix.{stripped}{'.root' * is_root}"
        statements += on.per_route.with_values(replace, values, purpose, ["\\1"])
    return [*statements, *on.per_route.with_values(statement("http-request set-header Host"), hosts, "host")]


def _in_place(on: HttpListener) -> list[Statement]:
    """Answers in the frontend; where there are many, or one cannot stand there, none: each has its backend.

    Headers can be added to such an answer in a backend only; the access log recognizes a 503 without a server by that.
    """
    keys = [key for name, key in on.keys.items() if name not in on.forwards]
    answers = [(key.name, each) for key in keys for each in _answer(key, on)]
    in_place = all(
        each.directive.text.startswith("http-request") and "status 503" not in each.directive.text
        for _, each in answers
    )
    if len(keys) > _MOST_IN_PLACE or not in_place:
        return []
    return [on.per_route.restrict(each, [name], name) for name, each in answers]


def answer_backends(on: HttpListener) -> dict[str, Block]:
    """A backend for each route that answers, by its key; none where they are answered in the frontend."""
    if _in_place(on):
        return {}
    return {
        name: block(
            statement("backend " + f"route:{on.listener.name}:{name}".replace("/", ":"), origin=key.origin),
            "http",
            _answer(key, on),
        )
        for name, key in on.keys.items()
        if name not in on.forwards
    }


def _answer(route_key: RouteKey, on: HttpListener) -> Iterator[Statement]:
    route = on.plan.route(route_key.route)
    if isinstance(route.action, Redirect):
        if (value := redirect_value(route.action, route.name, on.listener)) is None:
            yield from _redirect(route.action, route_key, on.listener)
        else:
            address = Literal(format_value(on, route, value))
            directive = f"http-request return status {route.action.status} hdr Location"
            yield statement(directive, address, origin=route_key.origin)
    elif isinstance(route.action, Respond):
        yield from _respond(on, route, route.action)


def _redirect(redirect: Redirect, route_key: RouteKey, listener: Listener) -> Iterator[Statement]:
    """The parts of the address are texts, or what the request has."""
    scheme = redirect.scheme or listener.scheme
    port = redirect.port or (_PORTS[scheme] if redirect.scheme else listener.client_port)
    authority = (str(redirect.host or "") or Sample("var(txn.host)"), "" if port == _PORTS[scheme] else f":{port}")

    def location(*path: str | Sample) -> Statement:
        value = Literal(log_format(f"{scheme}://", *authority, *path))
        directive = f"http-request return status {redirect.status} hdr Location"
        return statement(directive, value, origin=route_key.origin)

    if redirect.path is None and redirect.prefix is None:
        yield location(Sample("pathq"))
    elif redirect.prefix is None or route_key.stripped is None:
        path = str(redirect.path or "") or (redirect.prefix or "").rstrip("/") or "/"
        yield location(path, Sample("pathq,regsub(^[^?]*,)"))
    else:
        prefix = redirect.prefix.rstrip("/")
        rest = f"pathq,regsub({_first_segments(route_key.stripped, not prefix)},{'' if prefix else '/'})"
        yield location(prefix, Sample(rest))


def _respond(on: HttpListener, route: Route, respond: Respond) -> list[Statement]:
    origin = route.field
    arguments: list[str | Literal] = []
    has_body = bool(respond.body) and respond.status not in (204, 304)
    after = []
    for name, value in respond.headers:
        if name == "content-type" and has_body:
            arguments += ["content-type", Literal(str(value))]
        elif name == "content-type":  # `http-request return` drops it where there is no body
            set_type = "http-after-response set-header content-type"
            after.append(statement(set_type, Literal(log_format(str(value))), origin=origin))
        else:
            arguments += ["hdr", Literal(name), Literal(format_value(on, route, value))]
            if isinstance(value, Template) and may_be_empty(value):
                is_empty = acl(Literal(f"res.fhdr({argument(name)})"), "-m len 0")
                after.append(statement("http-after-response del-header", Literal(name), when=[is_empty], origin=origin))
    if has_body and isinstance(respond.body, Template):
        arguments += ["lf-string", Literal(format_value(on, route, respond.body))]
    elif has_body and isinstance(respond.body, str):
        arguments += ["string", Literal(respond.body)]
    return [statement(f"http-request return status {respond.status}", *arguments, origin=origin), *after]


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route in plan.routes:
        if isinstance(route.action, Respond) and count_bytes(route.action.body) > LONGEST_BODY:
            yield Objection(refused(f"a fixed answer holds at most {LONGEST_BODY} bytes"), f"{route.field}.respond")


REWRITES = Contributor(edits=_rewrites)
ANSWERS = Contributor(edits=_in_place, objections=_objections)
