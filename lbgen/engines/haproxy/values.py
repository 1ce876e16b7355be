"""Values with placeholders: the sample behind each fact of a request. What a response no longer has, and what edits
change, is kept in a variable before any edit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from lbgen.engines import escapes
from lbgen.engines.api import Objection, refused
from lbgen.engines.haproxy.matching import RouteKey
from lbgen.engines.haproxy.quote import Sample, argument, log_format
from lbgen.engines.haproxy.statements import HOST, Acl, Statement, acl, set_var, statement
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.engines.text import Literal
from lbgen.plan.facts import bind
from lbgen.plan.forwarding import PROXY_FIELDS
from lbgen.plan.model import Listener, Plan, Redirect, Respond, Route
from lbgen.plan.route_values import answer_values, route_facts, shared_facts
from lbgen.plan.values import Fact, Placeholder, Template, Value, group_number, may_be_empty, parts_of, placeholders_of

ROOM = 2048  # bytes that HAProxy keeps free for each fact of a client's choice
LONG_FACTS = frozenset({Fact.PATH, Fact.QUERY, Fact.ARGS, Fact.URI, Fact.HEADER, Fact.COOKIE, Fact.CAPTURE})
_LONGEST_LITERAL = 200  # bytes of a fact of another kind, such as the subject of a certificate
_REQUEST = {  # while the request is there
    Fact.METHOD: "method",
    Fact.PATH: "path",
    Fact.QUERY: "query",
    Fact.ARGS: "pathq,regsub(^[^?]*,)",
    Fact.URI: "pathq",
}
_OF_REQUESTS = frozenset({*_REQUEST, Fact.REQUEST_ID, Fact.HEADER, Fact.COOKIE})
_ALWAYS = {
    Fact.CLIENT_PORT: "src_port",
    Fact.HOST: "var(txn.host)",
    Fact.SERVER_NAME: "ssl_fc_sni",
    Fact.CERT_SUBJECT: "ssl_c_s_dn(,0,rfc2253)",
    Fact.CERT_FINGERPRINT: "ssl_c_sha1,hex,lower",
    Fact.CERT_VERIFIED: "ssl_c_used,iif(true,false)",
}
_ENDPOINT = "%si:%sp"


def format_shared(value: Value) -> str:
    """The log-format text of an error page or of the address of a login, which any section can hold: all of its facts
    are in variables of `_keep_shared`."""
    parts = (part if isinstance(part, str) else Sample(f"var({variable(part)})") for part in parts_of(value))
    return log_format(*parts)


def _shared_facts(on: HttpListener) -> tuple[Placeholder, ...]:
    return shared_facts(on.listener, (route for _, route in on.routes))


def makes_early_id(on: HttpListener) -> bool:
    """Whether requests get their id before anything can refuse them."""
    return on.listener.request_id and Placeholder(Fact.REQUEST_ID) in _shared_facts(on)


def _keep_shared(on: HttpListener) -> Iterator[Statement]:
    """Keep what error pages and addresses of logins hold, before anything can refuse a request or change it."""
    if makes_early_id(on):
        missing = [~acl("req.fhdr(x-request-id) -m found")] if on.listener.trusted_proxies else []
        made = "unique-id" if on.listener.logs else "uuid"
        yield statement(f"http-request set-header X-Request-Id %[{made}]", when=missing)
    for placeholder in _shared_facts(on):
        bound = bind(Template((placeholder,)), "", on.listener)
        if isinstance(bound, Template):
            yield set_var(variable(placeholder), Literal(_early_sample(on, placeholder)))
        elif bound:
            yield set_var(variable(placeholder), f"str({bound})")


def _early_sample(on: HttpListener, placeholder: Placeholder) -> str:
    if placeholder.fact is Fact.CLIENT_IP:
        return on.client
    if placeholder.fact is Fact.HOST:
        return HOST
    return _ALWAYS.get(placeholder.fact) or _fetch(placeholder)


def kept_facts(on: HttpListener) -> dict[str, list[Placeholder]]:
    """By key of a route, the facts that it keeps in variables: those of a request that its response needs, those that
    its own edits change, and groups of its path."""
    found = {}
    for key, route in on.routes:
        later = set(placeholders_of(*route.response_headers.values()))
        found[key] = [
            each
            for each in sorted(route_facts(route), key=str)
            if each.fact is Fact.CAPTURE or (each.fact in _OF_REQUESTS and (each in later or _is_changed(each, route)))
        ]
    return found


def _is_changed(placeholder: Placeholder, route: Route) -> bool:
    """Whether the fact is not what it was where values are written."""
    if placeholder.fact is not Fact.HEADER:
        return False
    edited = [route.request_headers, *(x.request_headers for x in getattr(route.action, "targets", ()))]
    names = {name for each in edited for name in (*each.remove, *(n for n, _ in (*each.set, *each.add)))}
    return placeholder.name in names | PROXY_FIELDS


def variable(placeholder: Placeholder) -> str:
    """The name of the variable that keeps a fact. Different names never give one variable."""
    fact, name = placeholder.fact, placeholder.name
    if not name:
        return f"txn.sent_{fact.value}"
    if re.fullmatch(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*", name):
        return f"txn.{fact.value}_{name.replace('-', '_')}"
    return f"txn.{fact.value}_." + re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found[0]):02x}", name)


def _sample(on: HttpListener, route: Route, placeholder: Placeholder, *, response: bool) -> Sample:
    fact = placeholder.fact
    if fact is Fact.CLIENT_IP:
        return Sample(on.client)
    if fact in _ALWAYS:
        return Sample(_ALWAYS[fact])
    if response or fact is Fact.CAPTURE or _is_changed(placeholder, route):
        return Sample(f"var({variable(placeholder)})")
    return Sample(_fetch(placeholder))


def _fetch(placeholder: Placeholder) -> str:
    match placeholder.fact:
        case Fact.HEADER:
            return f"req.fhdr({argument(placeholder.name)})"
        case Fact.COOKIE:
            return f'req.cook({argument(placeholder.name)}),regsub("^\\x22(.*)\\x22$","\\1")'
        case Fact.REQUEST_ID:
            return "req.fhdr(x-request-id)"
    return _REQUEST[placeholder.fact]


def format_value(on: HttpListener, route: Route, value: Value, *, response: bool = False) -> str:
    """`value` as a log-format text."""
    parts = parts_of(bind(value, route.name, on.listener))
    return "".join(
        _ENDPOINT
        if isinstance(part, Placeholder) and part.fact is Fact.ENDPOINT
        else log_format(part if isinstance(part, str) else _sample(on, route, part, response=response))
        for part in parts
    )


def edit_statements(
    on: HttpListener, rules: str, action: Statement, header: str, key: str, value: Template
) -> list[Statement]:
    """`action` (set-header or add-header) with a value that the request makes, for the route `key`; no line where that
    is empty."""
    response = rules != "http-request"
    route = on.plan.route(on.keys[key].route)
    text = format_value(on, route, value, response=response)
    bound = bind(value, route.name, on.listener)
    found: list[Statement] = []
    when: list[Acl] = []
    if may_be_empty(bound):
        if action.directive.text.endswith("set-header"):
            found.append(statement(f"{rules} del-header", Literal(header)))
        if Placeholder(Fact.ENDPOINT) in parts_of(bound):
            when = [acl("srv_id -m found")] if len(parts_of(bound)) == 1 else []
        elif text.startswith("%[") and text.count("%[") == 1:
            when = [acl(Literal(text[2:-1]), "-m len 1:")]
        elif text:
            found.append(statement(f"{rules} set-var-fmt(txn.value)", Literal(text)))
            text, when = "%[var(txn.value)]", [acl("var(txn.value) -m len 1:")]
        if not text:
            return found
    return [*found, action.extend(Literal(text), acls=when, origin=action.origin.text)]


def _keep(on: HttpListener) -> Iterator[Statement]:
    """Keep facts before anything changes them."""
    for placeholder, keys in _by_fact(on).items():
        if placeholder.fact in (Fact.REQUEST_ID, Fact.CAPTURE):
            continue
        keep = set_var(variable(placeholder), Literal(_fetch(placeholder)))
        yield on.per_route.restrict(keep, keys, variable(placeholder).removeprefix("txn."))
    for name, key in on.keys.items():
        for placeholder in sorted(route_facts(on.plan.route(key.route)), key=str):
            if placeholder.fact is Fact.CAPTURE:
                yield on.per_route.restrict(_capture(key, placeholder), [name], f"{name}.{placeholder.name}")


def _keep_id(on: HttpListener) -> Iterator[Statement]:
    """Keep the request's id once it has one."""
    if keys := _by_fact(on).get(Placeholder(Fact.REQUEST_ID)):
        fetch = _fetch(Placeholder(Fact.REQUEST_ID))
        yield on.per_route.restrict(set_var(variable(Placeholder(Fact.REQUEST_ID)), fetch), keys, "request_id")


def _by_fact(on: HttpListener) -> Mapping[Placeholder, Sequence[str]]:
    found: dict[Placeholder, list[str]] = {}
    for key, facts in kept_facts(on).items():
        for each in facts:
            found.setdefault(each, []).append(key)
    return found


def _capture(key: RouteKey, placeholder: Placeholder) -> Statement:
    number = group_number(key.path, placeholder.name)
    if number is None:
        raise ValueError(f"{key.path.value} has no group {placeholder.name}")
    regex = escapes.group(escapes.mark_group(key.path.value, number), escapes.plain())
    return set_var(variable(placeholder), Literal(f'path,regsub("^(?:{regex})$","\\1")'))


def asks_client(listener: Listener, routes: Sequence[Route]) -> bool:
    """Whether some value holds the client's address."""
    asked = Placeholder(Fact.CLIENT_IP)
    return asked in shared_facts(listener, routes) or any(asked in route_facts(route) for route in routes)


def needs_host(routes: Sequence[Route]) -> bool:
    """Whether some value holds the request's host."""
    return any(Placeholder(Fact.HOST) in route_facts(route) for route in routes) or any(
        isinstance(route.action, Redirect) and route.action.host is None and route.action.to is None for route in routes
    )


def needs_id(on: HttpListener) -> bool:
    """Whether the proxy's own answers hold the request's id."""
    return any(Placeholder(Fact.REQUEST_ID) in placeholders_of(*answer_values(route)) for _, route in on.routes)


def count_bytes(value: Value) -> int:
    """The room that a value may take."""
    return sum(
        len(part.encode()) if isinstance(part, str) else ROOM if part.fact in LONG_FACTS else _LONGEST_LITERAL
        for part in parts_of(value)
    )


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route in plan.routes:
        if isinstance(route.action, Respond):
            kinds = dict((*route.action.headers, *route.response_headers.set)).get("content-type", "")
            if isinstance(kinds, Template):
                why = "HAProxy's own answers have a fixed type: write the content-type as it is"
                yield Objection(refused(why), f"{route.field}.respond.headers")


SHARED_VALUES = Contributor(guards=_keep_shared)
VALUES = Contributor(by_client=asks_client, admission=_keep, edits=_keep_id, objections=_objections)
