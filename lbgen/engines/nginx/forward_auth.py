"""Authentication by a service: auth_request asks it, and a request that it refuses is sent to it again for the answer.

auth_request itself passes a 401 and a 403 on without their bodies, and takes a redirect for an error. So redirects
become a 401 within the subrequest, and error_page leads each 401 to a location that asks the service once more: what it
says this time is what the client gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.definitions import Definitions
from lbgen.engines.nginx.error_pages import NO_PAGES
from lbgen.engines.nginx.limits import check_length
from lbgen.engines.nginx.names import header_name, inline
from lbgen.engines.nginx.request_values import header_variable, is_readable
from lbgen.engines.nginx.statements import Answer, Header, Line, Location, Proxy, Text, Times
from lbgen.engines.nginx.strings import EMPTY, directive, text
from lbgen.engines.nginx.support import VERSIONS
from lbgen.engines.nginx.timeouts import duration
from lbgen.engines.nginx.upstream_protocols import PROXY, upstream_module, upstream_protocol
from lbgen.engines.nginx.values import write_value
from lbgen.engines.nginx.view import Contributor, HeaderLines, HttpBlock, HttpListener, HttpRoute
from lbgen.engines.text import Atom
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.error_pages import intercepts
from lbgen.plan.model import Listener, Plan

_REFUSED = Atom("@auth/refused")
"""Names of routes contain no slash."""
_TARGET = Atom("$service_target")
_AS_WRITTEN = directive("absolute_redirect", "off")
_PASSED_ON = ("300", "301", "302", "303", "307", "308", "401", "403")
_NOTES = (
    Atom("auth_request asks by paths that no client can send, and takes a redirect for an error: it is a 401 there."),
    Atom("A 401 leads to the location below, which asks once more, for the answer that the client gets."),
)
_MOST_BODY = 999_999
"""Bytes of the body of a refused request that nginx reads; nines make a short regex."""
_SUBREQUEST = (
    directive("internal"),
    directive("proxy_intercept_errors", "on"),
    directive("error_page", *_PASSED_ON, "=", _REFUSED),
)


def identity_headers(listener: Listener, plan: Plan, definitions: Definitions) -> HeaderLines:
    """The fields by which a service says who the client is. Their variables are empty on routes that ask none, so that
    these fields never come from a client."""
    return {name: (text(inline(_variable(definitions, name))),) for name in plan.identity_headers(listener)}


def leads_on(plan: Plan) -> bool:
    """Whether a location to which a refusal leads leads on to another one."""
    auths = [route.auth for route in plan.routes if route.auth is not None]
    return any(isinstance(auth, ForwardAuth) and auth.redirect_to is not None for auth in auths)


def _variable(definitions: Definitions, header: str) -> str:
    return definitions.named("auth", header)[0]


def _guard(at: HttpRoute, _: bool) -> Iterator[Line]:
    auth = at.route.auth
    if not isinstance(auth, ForwardAuth):
        return
    yield directive("auth_request", _path(at.on, auth))
    for name in auth.response_headers:
        variable = f"$upstream_{header_variable(name)}"
        yield directive("auth_request_set", f"${_variable(at.on.definitions, name)}", variable)
    yield directive("error_page", "401", "=", _name(at.on, auth))


def _locations(on: HttpBlock, listener: Listener, routes: Iterable[HttpRoute]) -> Iterator[Location]:
    """Where the services of these routes are asked, and asked again for the answer to a client."""
    auths = [at.route.auth for at in routes]
    found = {_key(on, auth): auth for auth in auths if isinstance(auth, ForwardAuth)}
    for number, auth in enumerate(found.values()):
        origin = Atom(auth.field)
        proxy = _proxy(on, listener, auth)
        notes = () if number else _NOTES
        yield Location(origin, name=Atom(f"= {_path(on, auth)}"), proxy=proxy, lines=_SUBREQUEST, notes=notes)
        large = check_length(on.definitions, _MOST_BODY, 401)
        yield Location(origin, name=_name(on, auth), proxy=proxy, checks=(large,), lines=tuple(_answer(on, auth)))
        if auth.redirect_to is not None:
            answer = Answer(302, write_value(HttpListener(on, listener), auth.redirect_to))
            yield Location(origin, name=_login(on, auth), answer=answer, lines=(_AS_WRITTEN,))
    if found:
        origin = Atom(next(iter(found.values())).field)
        errors = NO_PAGES if listener.error_pages else ()
        yield Location(origin, name=_REFUSED, answer=Answer(401, None), errors=errors)


def _answer(on: HttpBlock, auth: ForwardAuth) -> Iterator[Line]:
    """nginx itself has sent WWW-Authenticate of the first answer. It reads the whole body before it asks again, to a
    file; clients that are refused must not fill the disk."""
    yield directive("client_max_body_size", str(_MOST_BODY))
    yield directive("proxy_hide_header", "WWW-Authenticate")
    if auth.redirect_to is not None:
        yield directive("proxy_intercept_errors", "on")
        yield directive("error_page", "401", "=", _login(on, auth))


def _proxy(on: HttpBlock, listener: Listener, auth: ForwardAuth) -> Proxy:
    protocol = upstream_protocol(on.plan.pool(auth.pool), on.version)
    response = duration(auth.response)
    own = (
        directive("proxy_method", "GET"),
        directive("proxy_pass_request_body", "off"),
        directive("proxy_pass_request_headers", "off"),
        directive("set", _TARGET.text, on.definitions.text(auth.target)),
    )
    return Proxy(
        upstream=Atom(auth.pool),
        target=_TARGET,
        headers=tuple(_headers(on, listener, auth)),
        times=Times(duration(auth.connect), response, response),
        module=Atom(protocol.module),
        scheme=Atom(protocol.scheme),
        lines=(*own, *protocol.lines),
    )


def _headers(on: HttpBlock, listener: Listener, auth: ForwardAuth) -> Iterator[Header]:
    """All that the service gets of a request; none are inherited."""
    sent = on.headers[listener.name]
    made: dict[str, Text] = {
        "host": on.definitions.text(auth.host),
        "x-forwarded-method": text(inline("request_method")),
        "x-forwarded-uri": text(inline("request_uri")),
    }
    own = {"for": "remote_addr", "proto": "scheme", "host": "endpoint_host"}
    for what, variable in own.items():
        name = f"x-forwarded-{what}"
        made[name] = sent[name][0] if sent[name] else text(inline(variable))
    for name in auth.request_headers:
        if name not in made:
            values = sent.get(name)
            made[name] = text(inline(header_variable(name))) if values is None else (values or (EMPTY,))[0]
    for name, value in (made | {"content-length": EMPTY, "connection": EMPTY}).items():
        yield Header(header_name(name), value)


def _path(on: HttpBlock, auth: ForwardAuth) -> str:
    """A path with dot segments, which clients cannot reach."""
    return f"/../auth/{_key(on, auth)}"


def _name(on: HttpBlock, auth: ForwardAuth) -> Atom:
    return Atom(f"@auth/{_key(on, auth)}")


def _login(on: HttpBlock, auth: ForwardAuth) -> Atom:
    return Atom(f"{_name(on, auth).text}/login")


def _key(on: HttpBlock, auth: ForwardAuth) -> str:
    """The service's pool, and a number where it is asked in several ways."""
    ways = on.asked.setdefault(auth.pool, {})
    number = ways.setdefault(replace(auth, response_headers=(), field=""), len(ways) + 1)
    return auth.pool if number == 1 else f"{auth.pool}/{number}"


def _objections(plan: Plan, version: str) -> Iterator[Objection]:
    served = {x.name: {rule.route for table in x.hosts for rule in table.rules} for x in plan.listeners}
    for route in plan.routes:
        auth = route.auth
        if not isinstance(auth, ForwardAuth):
            continue
        if upstream_module(plan.pool(auth.pool), VERSIONS[version]) != PROXY:
            why = "nginx's gRPC module, which implements HTTP/2 to endpoints here, cannot ask a service by GET"
            yield Objection(refused(why), f"{auth.field}.pool")
        listeners = [each for each in plan.listeners if route.name in served[each.name]]
        if any(intercepts(plan.error_pages(each, route)) for each in listeners):
            why = "nginx would take an endpoint's 401 for one of the service where a page has `intercept: true`"
            yield Objection(refused(why), auth.field, "route.auth.forward")
        for name in (*auth.request_headers, *auth.response_headers):
            if not is_readable(name):
                yield Objection(refused(f"nginx cannot read the header {name}"), auth.field)


FORWARD_AUTH = Contributor(guard=_guard, locations=_locations, objections=_objections)
