"""Rewrites of path and Host; routes that redirect or respond: statements of the frontend, or a backend without servers
for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.engines.haproxy.quote import Sample, log_format
from lbgen.engines.haproxy.statements import Block, Statement, block, statement
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.engines.text import Literal
from lbgen.plan.model import Listener, Plan, Redirect, Respond

if TYPE_CHECKING:
    from lbgen.engines.haproxy.matching import RouteKey

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
    answers = [(key.name, each) for key in keys for each in _answer(key, on.plan, on.listener)]
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
            _answer(key, on.plan, on.listener),
        )
        for name, key in on.keys.items()
        if name not in on.forwards
    }


def _answer(route_key: RouteKey, plan: Plan, listener: Listener) -> Iterator[Statement]:
    action = plan.route(route_key.route).action
    if isinstance(action, Redirect):
        yield from _redirect(action, route_key, listener)
    elif isinstance(action, Respond):
        yield from _respond(action, route_key.origin)


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
        rest = f"pathq,regsub({_first_segments(route_key.stripped, not prefix)},{'' if prefix else '/'})"
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


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route in plan.routes:
        if isinstance(route.action, Respond) and len(route.action.body.encode()) > LONGEST_BODY:
            yield Objection(refused(f"a fixed answer holds at most {LONGEST_BODY} bytes"), f"{route.field}.respond")


REWRITES = Contributor(edits=_rewrites)
ANSWERS = Contributor(edits=_in_place, objections=_objections)
