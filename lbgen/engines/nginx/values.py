"""Values with placeholders: the variable behind each fact of a request, nginx's own where it has one, else a map."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lbgen.engines import escapes
from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.forwarded_headers import client
from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.paths import target_variable
from lbgen.engines.nginx.request_values import is_readable
from lbgen.engines.nginx.statements import Entry, Text
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.view import HttpListener, HttpRoute, http_routes
from lbgen.engines.text import Atom, Literal
from lbgen.plan.facts import bind
from lbgen.plan.model import Plan, Respond
from lbgen.plan.route_values import has_captures, route_facts, shared_facts
from lbgen.plan.values import Fact, Placeholder, Template, Value, group_number, parts_of

ADDRESS_STATUSES = frozenset({301, 302, 303, 307, 308})
"""Statuses for which `return` takes an address, not a text."""
_PATH, _QUERY, _ARGS = r"^(?<found>[^?]*)", r"^[^?]*\?(?<found>.*)$", r"^[^?]*(?<found>\?.*)$"
_COOKIE = (r"^=\x22(?<found>.*)\x22[ \t]*$", r"^=(?<found>.*?)[ \t]*$")
_LAST = r"(?<found>[^ ,]+)$"  # of an endpoint for each try
_OWN = {
    Fact.HOST: "host",
    Fact.METHOD: "request_method",
    Fact.SERVER_NAME: "ssl_server_name",
    Fact.CERT_SUBJECT: "ssl_client_s_dn",
    Fact.CERT_FINGERPRINT: "ssl_client_fingerprint",
}


def write_value(at: HttpListener, value: Value) -> Text:
    """`value` as a parameter in which nginx expands variables."""
    return at.on.definitions.text(*value_parts(at, value))


def write_body(at: HttpListener, value: Value) -> Text:
    """`value` as the text of a `return`."""
    if isinstance(value, str):
        return at.on.definitions.body(value)
    return write_value(at, value)


def value_parts(at: HttpListener, value: Value) -> Iterator[str | Atom]:
    """Texts and variables; without a route those of requests alone."""
    route = at.rule.route if isinstance(at, HttpRoute) else ""
    for part in parts_of(bind(value, route, at.listener)):
        yield from (part,) if isinstance(part, str) else _find(at, part)


def _find(at: HttpListener, placeholder: Placeholder) -> tuple[str | Atom, ...]:
    fact = placeholder.fact
    if fact is Fact.REQUEST_ID:
        return _written(at)
    return (inline(_OWN.get(fact) or _VARIABLES[fact](at, placeholder.name)),)


def _written(at: HttpListener) -> tuple[str | Atom, ...]:
    """The request id as endpoints get it."""
    lines = at.on.headers[at.listener.name]["x-request-id"]
    return tuple(inline(part.text.strip("${}")) for line in lines for part in line.parts)


def _client_ip(at: HttpListener, _: str) -> str:
    known = client(at.on).text[1:]
    return "remote_addr" if known == "binary_remote_addr" else known


def _client_port(at: HttpListener, _: str) -> str:
    return "realip_remote_port" if at.listener.name in at.on.real_ip else "remote_port"


def _of_target(kind: str, regex: str) -> Callable[[HttpListener, str], str]:
    def variable(at: HttpListener, _: str) -> str:
        return _cut(at, kind, "", target_variable(at.listener), regex)

    return variable


def _uri(at: HttpListener, _: str) -> str:
    return target_variable(at.listener)


def _cookie(at: HttpListener, name: str) -> str:
    return _cut(at, "cookie_value", name, at.on.values.cookie(name), *_COOKIE)


def _header(at: HttpListener, name: str) -> str:
    return at.on.values.header(name, at.listener)


def _endpoint(at: HttpListener, _: str) -> str:
    return _cut(at, "endpoint", "", "upstream_addr", _LAST, volatile=True)


def _verified(at: HttpListener, _: str) -> str:
    definitions = at.on.definitions
    name, is_new = definitions.named("verified", "")
    if is_new:
        entry = Entry(Literal("SUCCESS", "key"), text("true"))
        definitions.map(Section.VALUES, name, text(inline("ssl_client_verify")), entry, default=text("false"))
    return name


def _capture(at: HttpListener, name: str) -> str:
    if not isinstance(at, HttpRoute) or (number := group_number(path := at.rule.match.path, name)) is None:
        raise ValueError(f"no group {name}")
    node = escapes.mark_group(path.value, number, "found")
    regex = f"^{escapes.group(node, escapes.plain(chr(10) + '?'))}(?:\\?|$)"
    return _cut(at, "capture", f"{at.route.name} {name}", target_variable(at.listener), regex)


def _cut(at: HttpListener, kind: str, words: str, source: str, *regexes: str, volatile: bool = False) -> str:
    """The variable with what the group `found` of the first regex that matches finds in `source`."""
    definitions = at.on.definitions
    name, is_new = definitions.named(kind, words, source, *regexes)
    if is_new:
        entries = (Entry(Literal(regex, "regex"), text(inline("found"))) for regex in regexes)
        definitions.map(Section.VALUES, name, text(inline(source)), *entries, default=EMPTY, volatile=volatile)
    return name


_VARIABLES: dict[Fact, Callable[[HttpListener, str], str]] = {
    Fact.CLIENT_IP: _client_ip,
    Fact.CLIENT_PORT: _client_port,
    Fact.PATH: _of_target("path", _PATH),
    Fact.QUERY: _of_target("query", _QUERY),
    Fact.ARGS: _of_target("query_and_mark", _ARGS),
    Fact.URI: _uri,
    Fact.ENDPOINT: _endpoint,
    Fact.CERT_VERIFIED: _verified,
    Fact.HEADER: _header,
    Fact.COOKIE: _cookie,
    Fact.CAPTURE: _capture,
}


def value_objections(plan: Plan, _: str) -> Iterator[Objection]:
    """Headers that nginx cannot read, and a media type that it would have to compute."""
    for listener in plan.listeners:
        for placeholder in shared_facts(listener, http_routes(plan, listener)):
            if placeholder.fact is Fact.HEADER and not is_readable(placeholder.name):
                yield Objection(refused(f"nginx cannot read the header {placeholder.name}"), listener.field)
    for route in plan.routes:
        for placeholder in sorted(route_facts(route), key=str):
            if placeholder.fact is Fact.HEADER and not is_readable(placeholder.name):
                yield Objection(refused(f"nginx cannot read the header {placeholder.name}"), route.field)
        if isinstance(route.action, Respond):
            if route.action.status in ADDRESS_STATUSES and has_captures(route):
                why = f"nginx answers {route.action.status} from a location that all paths of the route share"
                yield Objection(refused(f"{why}, where no group of the path is known"), f"{route.field}.respond")
            kind = dict((*route.action.headers, *route.response_headers.set)).get("content-type", "")
            if isinstance(kind, Template):
                why = "nginx's default_type takes no variable: write the content-type as it is"
                yield Objection(refused(why), f"{route.field}.respond.headers")
