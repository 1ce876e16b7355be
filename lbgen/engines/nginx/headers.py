"""Edits of headers: those of requests as proxy_set_header directives, those of responses as add_header."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.forwarded_headers import UPGRADES, grpc_headers, header_directives
from lbgen.engines.nginx.names import header_name, inline
from lbgen.engines.nginx.pool_selection import share_names
from lbgen.engines.nginx.request_values import header_variable, is_readable
from lbgen.engines.nginx.statements import Entry, Header, Text
from lbgen.engines.nginx.strings import EMPTY, directive, text
from lbgen.engines.nginx.upstream_protocols import PROXY
from lbgen.engines.nginx.values import value_objections, write_value
from lbgen.engines.nginx.view import Contributor, HeaderLines, HttpForward, HttpRoute, HttpServer, Lines
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, HeaderEdits, Plan, Redirect, Respond, Route, Target
from lbgen.plan.route_values import has_captures
from lbgen.plan.values import Value

TRAILERS = (Header(Atom("TE"), text(inline("te"))),)
"""To HTTP/2 endpoints by the proxy module, which drops the field; the gRPC module keeps it."""
_OWN = ("server", "date")  # which nginx sets itself
_OWN_OF_REDIRECTS = (*_OWN, "content-type", "location")


def request_headers(at: HttpForward) -> tuple[Header, ...]:
    """All request headers, or none when those of the listener suffice: nginx inherits all or none."""
    route, action, known = at.route, at.action, at.on.request_headers
    host = action.rewrite.host if action.rewrite else None
    targets = at.on.reachable_targets(action)
    if not (at.protocol.http2 or host or route.request_headers or any(t.request_headers for t in targets)):
        return ()
    key = (route.name, at.listener.name, at.rule.match.path.value if has_captures(route) else "")
    if key not in known:
        definitions, base = at.on.definitions, at.on.headers[at.listener.name]
        if host:
            base = base | {"host": (definitions.text(host),)}
        base = _edited(base, route.request_headers, at)
        each = [_edited(base, t.request_headers, at) for t in targets]
        lines = _by_target(at, targets, each) if len(each) > 1 else each[0]
        if at.protocol.module == PROXY:
            known[key] = header_directives(lines, TRAILERS if at.protocol.http2 else UPGRADES)
        else:
            known[key] = grpc_headers(header_directives(lines))
    return known[key]


def _edited(lines: HeaderLines, edits: HeaderEdits, at: HttpRoute) -> HeaderLines:
    """`lines` after `edits`: remove, set, add. A header that is only added to keeps the client's value."""
    out = dict(lines)
    for name in edits.remove:
        out[name] = ()
    for name, value in edits.set:
        out[name] = (write_value(at, value),)
    for name, value in edits.add:
        before = out[name] if name in out else (text(inline(header_variable(name))),)
        out[name] = (*before, write_value(at, value))
    return out


def _by_target(at: HttpForward, targets: list[Target], each: list[HeaderLines]) -> HeaderLines:
    """The headers of all targets in one; where they differ, a map over the split selects the value."""
    out: HeaderLines = {}
    for name in dict.fromkeys(name for lines in each for name in lines):
        values = [lines[name] if name in lines else (text(inline(header_variable(name))),) for lines in each]
        if all(value == values[0] for value in values):
            out[name] = values[0]
            continue
        longest = max(map(len, values))
        padded = [(*value, *[EMPTY] * (longest - len(value))) for value in values]
        out[name] = tuple(_choice(at, targets, name, column) for column in zip(*padded, strict=True))
    return out


def _choice(at: HttpForward, targets: list[Target], header: str, values: tuple[Text, ...]) -> Text:
    """The variable with the value for the selected target."""
    definitions, route = at.on.definitions, at.route
    name = definitions.names.variable("header", f"{route.name} {header}")
    entries = (Entry(Literal(share, "key"), value) for share, value in zip(share_names(targets), values, strict=True))
    source = text(inline(at.on.splits.get(route.name, "")))
    definitions.map(Section.TARGETS, name, source, *entries, origin=f"{route.field}.forward")
    return text(inline(name))


def response_headers(
    at: HttpRoute, start: Iterable[tuple[str, Value]], edits: HeaderEdits, more: Iterable[tuple[str, Text]]
) -> tuple[tuple[Header, ...], Value | None]:
    """The headers of an answer of nginx's own after `edits`, and its content-type (None = none). `more` are headers
    that the edits may replace."""
    if not (start or edits or more):
        return (), None
    replaced = {*edits.remove, *(name for name, _ in edits.set)}
    last = (*edits.set, *edits.add)
    kept = [pair for pair in start if pair[0] not in replaced]
    content_type = next((value for name, value in (*kept, *last) if name == "content-type"), None)
    every = [(name, write_value(at, value)) for name, value in kept]
    every += [pair for pair in more if pair[0] not in replaced]
    every += [(name, write_value(at, value)) for name, value in last]
    return tuple(Header(header_name(name), value) for name, value in every if name != "content-type"), content_type


def _server(at: HttpServer) -> Lines:
    if at.listener.underscores:
        yield directive("underscores_in_headers", "on")


def _hides(route: Route) -> Iterator[str]:
    yield from (name for name, _ in route.response_headers.set)
    yield from route.response_headers.remove


def _objections(plan: Plan, version: str) -> Iterator[Objection]:
    yield from value_objections(plan, version)
    for route in plan.routes:
        if isinstance(route.action, Forward):
            yield from _edits(route, route.action)
        yield from _own_headers(route)


def _edits(route: Route, action: Forward) -> Iterator[Objection]:
    for name, _ in (*route.request_headers.add, *[pair for x in action.targets for pair in x.request_headers.add]):
        if not is_readable(name):
            why = f"nginx cannot read the header {name}, so it cannot add to it"
            yield Objection(refused(why), f"{route.field}.request_headers")
    # Where one target of a split edits a header, the others get the client's value, which nginx must read.
    for target in action.targets if len(action.targets) > 1 else ():
        for name in dict.fromkeys(_edited_headers(target.request_headers)):
            if not is_readable(name):
                why = f"nginx cannot read the header {name}, so it cannot keep it for other targets"
                yield Objection(refused(why), f"{target.field}.request_headers")


def _own_headers(route: Route) -> Iterator[Objection]:
    own = _OWN_OF_REDIRECTS if isinstance(route.action, Redirect) else _OWN
    found = dict.fromkeys(_edited_headers(route.response_headers), f"{route.field}.response_headers")
    if isinstance(route.action, Respond):
        found |= {name: f"{route.field}.respond.headers" for name, _ in route.action.headers}
    for name, field in found.items():
        if name in own:
            yield Objection(refused(f"nginx sets {name} itself and has no directive to change it"), field)


def _edited_headers(edits: HeaderEdits) -> Iterator[str]:
    yield from (name for name, _ in (*edits.set, *edits.add))
    yield from edits.remove


HEADERS = Contributor(server=_server, hides=_hides, objections=_objections)
