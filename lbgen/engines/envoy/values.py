"""Values with placeholders: Envoy's command operators, and a filter that keeps the facts that none of them has.

The filter copies what it reads of a request's path, host, cookies and header fields to metadata before any edit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.api import Objection, refused
from lbgen.engines.document import Commented
from lbgen.engines.envoy.forwarded_headers import PROTO, SAVED_PROTO, build_id_filter
from lbgen.engines.envoy.mutations import escape_format
from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute, http_routes
from lbgen.plan.facts import bind
from lbgen.plan.forwarding import PROXY_FIELDS, REQUEST_ID, redirect_value
from lbgen.plan.model import Forward, Listener, Plan, Redirect, Respond, Route
from lbgen.plan.path_conditions import EVERY_PATH, Path
from lbgen.plan.route_values import answer_values, request_values, route_facts, shared_facts
from lbgen.plan.values import Fact, Placeholder, Template, Value, group_number, may_be_empty, parts_of, placeholders_of

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_SPACE = "lbgen"  # of metadata
_FILTER = "values"
_KIND = "filters.http.header_to_metadata.v3.Config"
_SHARED = "shared-values"
_WHY_SHARED = "Keeps what error pages and addresses of logins need of a request, before anything refuses it."
_WHY = "Keeps what values of routes need of a request and no command operator has."
_NAME = re.compile(r"[a-z0-9._-]+")
_METADATA = f"%DYNAMIC_METADATA({_SPACE}:{{}})%"
_CLIENT_PORT = "%DOWNSTREAM_REMOTE_PORT%"
_PEER_PORT = "%DOWNSTREAM_DIRECT_REMOTE_PORT%"  # where the client is who a trusted proxy says it is
_OPERATORS = {
    Fact.CLIENT_IP: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    Fact.METHOD: "%REQ(:METHOD)%",
    Fact.SERVER_NAME: "%REQUESTED_SERVER_NAME%",
    Fact.ENDPOINT: "%UPSTREAM_HOST%",
    Fact.CERT_SUBJECT: "%DOWNSTREAM_PEER_SUBJECT%",
    Fact.CERT_FINGERPRINT: "%DOWNSTREAM_PEER_FINGERPRINT_1%",
    Fact.CERT_VERIFIED: "%CEL(connection.mtls)%",
}
_OF_TARGET = {Fact.PATH: r"^([^?]*).*$", Fact.QUERY: r"^[^?]*\??(.*)$", Fact.ARGS: r"^[^?]*(.*)$", Fact.URI: r"^(.*)$"}
_HOST = r"^(\[[^\]]*\]|[^:]*?)\.?(?::[0-9]*)?$"


def format_value(at: HttpRoute, value: Value, *, response: bool = False) -> str:
    """`value` in Envoy's format syntax."""
    parts = parts_of(bind(value, at.route.name, at.on.listener))
    return "".join(
        escape_format(part) if isinstance(part, str) else _operator(at, part, response=response) for part in parts
    )


def format_shared(on: HttpListener, value: Value) -> str:
    """A text that routes share, as that of an error page: what a request has is read from metadata, which hold it
    before any route changes it."""
    parts = parts_of(bind(value, "", on.listener))
    return "".join(
        escape_format(part) if isinstance(part, str) else _shared_operator(on.listener, part) for part in parts
    )


def _shared_operator(listener: Listener, placeholder: Placeholder) -> str:
    if placeholder.fact is Fact.CLIENT_PORT:
        return _PEER_PORT if listener.trusted_proxies else _CLIENT_PORT
    return _OPERATORS.get(placeholder.fact) or _METADATA.format(_key(placeholder))


def is_optional(at: HttpRoute, value: Value) -> bool:
    """Whether a request can make the value empty, for which Envoy writes no line."""
    return may_be_empty(bind(value, at.route.name, at.on.listener))


def _operator(at: HttpRoute, placeholder: Placeholder, *, response: bool) -> str:
    fact = placeholder.fact
    if fact is Fact.HOST and (host := _only_host(at)) is not None:
        return host
    if fact is Fact.URI and not (response and _is_rewritten(at)):
        return "%REQ(:PATH)%"
    if fact is Fact.HEADER and not _is_changed(at, placeholder.name):
        return f"%REQ({placeholder.name.upper()})%"
    return "%REQ(X-REQUEST-ID)%" if fact is Fact.REQUEST_ID else _shared_operator(at.on.listener, placeholder)


def _only_host(at: HttpRoute) -> str | None:
    host = at.rule.host
    return host.name if host is not None and not host.wildcard else None


def _is_rewritten(at: HttpRoute) -> bool:
    rewrite = None if at.forward is None else at.forward.rewrite
    return rewrite is not None and (rewrite.path is not None or rewrite.prefix is not None)


def _is_changed(at: HttpRoute, name: str) -> bool:
    """Whether the header is not what the client sent where values are written."""
    edited = [at.route.request_headers, *(x.request_headers for x in getattr(at.route.action, "targets", ()))]
    names = {name for each in edited for name in (*each.remove, *(n for n, _ in (*each.set, *each.add)))}
    return name in names | PROXY_FIELDS | {"host"}


def _key(placeholder: Placeholder) -> str:
    """A name in metadata, of letters, digits and signs without a meaning in operators."""
    name = re.sub(r"[^A-Za-z0-9._-]", lambda found: f"~{ord(found[0]):02x}", placeholder.name)
    return f"{placeholder.fact.value}.{name}" if name else placeholder.fact.value


def _values(at: HttpRoute) -> list[tuple[Value, bool]]:
    """The values of the route, and whether they belong to responses."""
    action, answers = at.route.action, answer_values(at.route)
    if isinstance(action, Redirect):
        address = redirect_value(action, at.route.name, at.on.listener)
        answers = [*([] if address is None else [address]), *at.route.response_headers.values()]
    return [*((value, False) for value in request_values(at.route)), *((value, True) for value in answers)]


def _rules(at: HttpRoute) -> list[Data]:
    """The rules of the filter for what the route's values need."""
    found: dict[str, Data] = {}
    for value, response in _values(at):
        for placeholder in placeholders_of(bind(value, at.route.name, at.on.listener)):
            if "%DYNAMIC_METADATA(" in _operator(at, placeholder, response=response):
                found.setdefault(_key(placeholder), _rule(placeholder, at.rule.match.path))
    return list(found.values())


def _shared_rules(on: HttpListener) -> list[Data]:
    """The same for what error pages and addresses of logins need."""
    texts = (bind(Template((each,)), "", on.listener) for each in shared_facts(on.listener, on.routes))
    kept = [each for each in placeholders_of(*texts) if "%DYNAMIC_METADATA(" in _shared_operator(on.listener, each)]
    return [_rule(each, EVERY_PATH) for each in kept]


def _rule(placeholder: Placeholder, path: Path) -> Data:
    kept: dict[str, Data] = {"metadata_namespace": _SPACE, "key": _key(placeholder), "type": "STRING"}
    match placeholder.fact:
        case Fact.REQUEST_ID:
            return {"header": REQUEST_ID, "on_header_present": kept}
        case Fact.COOKIE:
            return {"cookie": placeholder.name, "on_header_present": kept}
        case Fact.HEADER:
            name = placeholder.name
            source = {"host": ":authority", PROTO: SAVED_PROTO}.get(name, name)
            return {"header": source, "on_header_present": kept}
        case Fact.HOST:
            return {"header": ":authority", "on_header_present": {**kept, "regex_value_rewrite": _cut(_HOST)}}
        case Fact.CAPTURE:
            number = group_number(path, placeholder.name) or 0
            node = escapes.mark_group(path.value, number)
            regex = rf"^{escapes.group(node, escapes.plain('?'))}(?:\?.*)?$"
            return {"header": ":path", "on_header_present": {**kept, "regex_value_rewrite": _cut(regex)}}
    regex = _OF_TARGET[placeholder.fact]
    return {"header": ":path", "on_header_present": {**kept, "regex_value_rewrite": _cut(regex)}}


def _cut(regex: str) -> dict[str, Data]:
    return {"pattern": {"regex": regex}, "substitution": r"\1"}


def _manager(on: HttpListener) -> dict[str, Data]:
    asked = (HttpRoute(on, rule, on.plan.route(rule.route), None) for x in on.listener.hosts for rule in x.rules)
    if not any(_rules(_with_forward(at)) for at in asked):
        return {}
    return {"http_filters": [Commented(_WHY, extension(_FILTER, _KIND))]}


def _shared_manager(on: HttpListener) -> dict[str, Data]:
    filters: list[Data] = []
    if on.by_client and Placeholder(Fact.REQUEST_ID) in shared_facts(on.listener, on.routes):
        filters.append(build_id_filter())
    if rules := _shared_rules(on):
        filters.append(Commented(_WHY_SHARED, extension(_SHARED, _KIND, {"request_rules": rules})))
    return {"http_filters": filters} if filters else {}


def _with_forward(at: HttpRoute) -> HttpRoute:
    action = at.route.action
    return HttpRoute(at.on, at.rule, at.route, action if isinstance(action, Forward) else None)


def _route(at: HttpRoute) -> dict[str, Data]:
    rules = _rules(at)
    if not rules:
        return {}
    return {"typed_per_filter_config": {_FILTER: typed(f"envoy.extensions.{_KIND}", {"request_rules": rules})}}


def _by_client(listener: Listener, routes: Sequence[Route]) -> bool:
    facts = {*shared_facts(listener, routes), *(each for route in routes for each in route_facts(route))}
    return Placeholder(Fact.CLIENT_IP) in facts


_PROXIED_PORT = "Envoy does not have the port of a PROXY header behind trusted proxies"


def _shared_objections(plan: Plan, _: str) -> Iterator[Objection]:
    served: dict[str, list[Route]] = {}
    for route, listeners in http_routes(plan):
        for listener in listeners:
            served.setdefault(listener.name, []).append(route)
    for listener in plan.listeners:
        facts = shared_facts(listener, served.get(listener.name, ()))
        if Placeholder(Fact.CLIENT_PORT) in facts and listener.trusted_proxies and listener.proxy_protocol:
            yield Objection(refused(_PROXIED_PORT), listener.field, "values.client_port")


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route, listeners in http_routes(plan):
        facts = route_facts(route)
        for each in sorted(facts, key=str):
            if each.fact is Fact.HEADER and not _NAME.fullmatch(each.name):
                yield Objection(refused(f"Envoy's operators cannot read the header {each.name}"), route.field)
        behind = [listener for listener in listeners if listener.trusted_proxies]
        if Placeholder(Fact.CLIENT_PORT) in facts and any(x.proxy_protocol for x in behind):
            yield Objection(refused(_PROXIED_PORT), route.field, "values.client_port")
        if Placeholder(Fact.REQUEST_ID) in facts:
            edited = (
                *route.request_headers.remove,
                *(n for n, _ in (*route.request_headers.set, *route.request_headers.add)),
            )
            if REQUEST_ID in edited:
                why = f"Envoy reads the id from {REQUEST_ID}, which the route edits"
                yield Objection(refused(why), route.field, "values.request_id")
            elif behind and not isinstance(route.action, Forward):
                why = "Envoy makes no id behind trusted proxies for what it answers by itself"
                yield Objection(refused(why), route.field, "values.request_id")
        if isinstance(route.action, Respond):
            kind = dict((*route.action.headers, *route.response_headers.set)).get("content-type", "")
            if not isinstance(kind, str):
                why = "Envoy's own answers have a fixed type: write the content-type as it is"
                yield Objection(refused(why), f"{route.field}.respond.headers")


SHARED_VALUES = Contributor(manager=_shared_manager, by_client=_by_client, objections=_shared_objections)
VALUES = Contributor(manager=_manager, route=_route, objections=_objections)
