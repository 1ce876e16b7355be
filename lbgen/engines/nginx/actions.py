"""Route actions as bodies of locations, and the guards before them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from msgspec.structs import replace

from lbgen.engines.nginx.features import FEATURES
from lbgen.engines.nginx.headers import request_headers, response_headers
from lbgen.engines.nginx.matching import PATH
from lbgen.engines.nginx.names import header_name, named_location, reference
from lbgen.engines.nginx.pool_selection import select_upstream
from lbgen.engines.nginx.rewrites import redirect_address, rewritten_target
from lbgen.engines.nginx.statements import Answer, Check, Guard, Header, Line, Location, Proxy
from lbgen.engines.nginx.strings import EMPTY
from lbgen.engines.nginx.timeouts import proxy_times
from lbgen.engines.nginx.upstream_protocols import PROXY, upstream_protocol
from lbgen.engines.nginx.values import ADDRESS_STATUSES, write_body, write_value
from lbgen.engines.nginx.view import HttpForward, HttpRoute
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Redirect, Respond
from lbgen.plan.values import Value

Body = Proxy | Answer
_GUARDS = [each.guard for each in FEATURES if each.guard]
_HIDES = [each.hides for each in FEATURES if each.hides]
_RESPONSES = [each.response for each in FEATURES if each.response]
_FORWARDS = [each.forward for each in FEATURES if each.forward]
_FORWARDED = [each.forwarded for each in FEATURES if each.forwarded]


def build_body(at: HttpRoute) -> Body:
    """The body of a location for the requests of a rule."""
    action = at.route.action
    match action:
        case Forward():
            pool = at.on.plan.pool(next(t.pool for t in action.targets if t.weight))
            protocol = upstream_protocol(pool, at.on.version)  # the same for all targets
            return _proxy(HttpForward(at.on, at.listener, at.rule, at.route, action, protocol))
        case Redirect():
            return Answer(action.status, redirect_address(at, action), add=answer_headers(at)[0])
        case Respond() if action.status in ADDRESS_STATUSES:
            return Answer(action.status, EMPTY, body_at=named_location(at.route.name, "answer"))
        case Respond():
            return _respond(at, action, action.status)
        case _:
            assert_never(action)


def answer_location(at: HttpRoute) -> Location | None:
    """The named location with the body of an answer whose status takes an address."""
    action = at.route.action
    if not isinstance(action, Respond) or action.status not in ADDRESS_STATUSES:
        return None
    name = named_location(at.route.name, "answer")
    return Location(Atom(at.route.field), name=name, answer=_respond(at, action, 200))


def build_guard(at: HttpRoute, *, named: bool) -> Guard | None:
    """The checks and limits before the route's action, in a location with a name or a path; None when nothing is
    checked."""
    every = [each for guard in _GUARDS for each in guard(at, named)]
    if not every:
        return None
    checks = tuple(each for each in every if isinstance(each, Check))
    return Guard(checks, answer_headers(at)[0], tuple(each for each in every if isinstance(each, Line)))


def _respond(at: HttpRoute, action: Respond, status: int) -> Answer:
    add, content_type = answer_headers(at, action.headers)
    media = None if content_type == "text/plain" else Literal(str(content_type or ""), "word")
    return Answer(status, write_body(at, action.body), media, add)


def _hidden(at: HttpRoute) -> dict[str, None]:
    """The headers of endpoints that clients do not get."""
    return {name: None for hides in _HIDES for name in hides(at.route)}


def answer_headers(at: HttpRoute, start: Iterable[tuple[str, Value]] = ()) -> tuple[tuple[Header, ...], Value | None]:
    """The headers of an answer of nginx's own, and its content-type."""
    hidden = _hidden(at) if start else ()
    more = [pair for response in _RESPONSES for pair in response(at)]
    kept = [pair for pair in start if pair[0] not in hidden]
    return response_headers(at, kept, at.route.response_headers, more)


def _proxy(at: HttpForward) -> Proxy:
    on, module = at.on, at.protocol.module
    add, content_type = answer_headers(at)
    if content_type is not None:
        add = (*add, Header(header_name("content-type"), write_value(at, content_type)))
    upstream = select_upstream(on, at.route, at.action)
    add = (*add, *(header for forwarded in _FORWARDED for header in forwarded(at)))
    hidden = [header_name(name) for name in _hidden(at)]
    # What the http block hides and a location that hides more has to repeat.
    inherited = (Atom("Proxy-Connection"),) if hidden and module == PROXY else ()
    target = rewritten_target(at, at.action.rewrite)
    times = proxy_times(at.action.timeouts)
    return Proxy(
        module=Atom(module),
        scheme=Atom(at.protocol.scheme),
        lines=tuple(line for lines in _FORWARDS for line in lines(at)),
        upstream=upstream,
        target=None if target == PATH else reference(target),
        headers=request_headers(at),
        times=None if times == on.times else times,
        hide=(*(name for name in hidden if all(x.name != name for x in add)), *inherited),
        add=_replacing(add, hidden),
    )


def _replacing(add: tuple[Header, ...], hidden: list[Atom | Literal]) -> tuple[Header, ...]:
    """`add`, the first of each name with a note that the endpoint's is hidden."""
    names = [x.name for x in add]
    return tuple(replace(x, replaces=x.name in hidden and names.index(x.name) == at) for at, x in enumerate(add))
