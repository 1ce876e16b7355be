"""Request headers of a listener and a route's edits, as proxy_set_header and add_header directives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.names import inline, network, reference
from lbgen.engines.nginx.request_values import header_variable, is_readable
from lbgen.engines.nginx.strings import EMPTY, Texts, directive, text
from lbgen.engines.nginx.view import Contributor, Entry, Geo, Header, HttpServer, Line, Map, Network, Text
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, HeaderEdits, Listener, Plan, Redirect, Respond, Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.nginx.upstream_protocols import UpstreamProtocol

HeaderLines = dict[str, tuple[Text, ...]]
"""Header name (lower case) to its lines; no lines drop the header."""

UPGRADES = (
    Header(Atom("Connection"), text(inline("connection_upgrade"))),
    Header(Atom("Upgrade"), text(inline("upgrade"))),
)
"""To HTTP/1 endpoints; HTTP/2 has no upgrades."""
TRAILERS = (Header(Atom("TE"), text(inline("te"))),)
"""To HTTP/2 endpoints by the proxy module, which drops the field; the gRPC module keeps it."""
_HOST = Atom("Host")
_FORWARDED = ("for", "proto", "host", "port")
_OWN = ("server", "date")  # which nginx sets itself
_OWN_OF_REDIRECTS = (*_OWN, "content-type", "location")
_PLAIN = re.compile(r"[0-9A-Za-z_.-]+")
_SPELLING = {"http2-settings": "HTTP2-Settings", "x-request-id": "X-Request-ID", "te": "TE"}


class Trust(Struct, frozen=True):
    """The header variables of listeners with the same trusted proxies and the same headers; `suffix` makes their names
    unique, `peer` is the variable with the address of the TCP peer."""

    listener: Listener
    suffix: str
    peer: str

    def name(self, base: str) -> str:
        return f"{base}{self.suffix}"


def trust_by_listener(listeners: Iterable[Listener], with_real_ip: frozenset[str] = frozenset()) -> dict[str, Trust]:
    """By name of the listener; listeners without trusted proxies are absent. On the listeners `with_real_ip`
    $remote_addr is the client's address."""
    shared: dict[tuple[object, ...], Trust] = {}
    out: dict[str, Trust] = {}
    for x in listeners:
        if x.trusted_proxies:
            peer = "realip_remote_addr" if x.name in with_real_ip else "remote_addr"
            key = (x.trusted_proxies, x.forwarded_headers, x.request_id, peer, x.public_port)
            suffix = f"_{len(shared) + 1}" if shared else ""
            out[x.name] = shared.setdefault(key, Trust(x, suffix, peer))
    return out


def _own_values(listener: Listener, address: str, *, alone: bool) -> dict[str, str | Atom]:
    """The X-Forwarded values for requests of untrusted peers; `address` is the variable with the peer's address.
    `alone`: no other listener shares them, so what is the same for every request is written as text."""
    # $server_port is the port nginx listens on.
    port = inline("server_port") if listener.public_port is None and not alone else str(listener.client_port)
    return {
        "for": inline(address),
        "proto": listener.scheme if alone else inline("scheme"),
        "host": inline("endpoint_host"),
        "port": port,
    }


def standard_headers(listener: Listener, trust: Trust | None = None, *, alone: bool = False) -> HeaderLines:
    """The headers that this listener sets on every forwarded request; `alone`: it is the only listener."""
    lines: HeaderLines = {"host": (text(inline("endpoint_host")),)}
    own = _own_values(listener, "remote_addr", alone=alone)
    for what in _FORWARDED:
        value = own[what]
        if trust:
            value = inline(trust.name(f"{'forwarded' if listener.forwarded_headers else 'passed'}_{what}"))
        lines[f"x-forwarded-{what}"] = (text(value),) if trust or listener.forwarded_headers else ()
    if trust:
        request_id = trust.name("kept_request_id" if listener.request_id else "passed_request_id")
        lines["x-request-id"] = (text(inline(request_id)),)
    else:
        lines["x-request-id"] = (text(inline("request_id")),) if listener.request_id else ()
    return lines | {"http2-settings": (), "proxy-connection": (), "trailer": ()}


def trust_maps(trust: Trust, *, alone: bool = False) -> tuple[Geo, tuple[Map, ...]]:
    """The geo block and the maps behind the headers of a listener with trusted proxies."""
    listener = trust.listener
    origin = Atom(f"{listener.field}.trusted_proxies")
    trusted = trust.name("trusted")
    networks = tuple(Network(network(n), 1) for n in listener.trusted_proxies)
    source = reference(trust.peer) if trust.peer != "remote_addr" else None
    geo = Geo(origin, reference(trusted), networks, source=source)

    def kept(name: str, header: str, value: Text, default: Text) -> Map:
        """`value` when a trusted peer sent the header, else the default."""
        source = text(inline(trusted), ":", inline(header_variable(header)))
        entry = Entry(Literal("^1:.", "regex"), value)
        return Map(origin, source, reference(trust.name(name)), default, (entry,))

    maps: list[Map] = []
    own = _own_values(listener, trust.peer, alone=alone)
    for what in _FORWARDED:
        header = f"x-forwarded-{what}"
        sent = inline(header_variable(header))
        if not listener.forwarded_headers:
            maps.append(kept(f"passed_{what}", header, text(sent), EMPTY))
            continue
        value = text(sent, ", ", inline(trust.peer)) if what == "for" else text(sent)
        maps.append(kept(f"forwarded_{what}", header, value, text(own[what])))
    name, default = (
        ("kept_request_id", text(inline("request_id"))) if listener.request_id else ("passed_request_id", EMPTY)
    )
    maps.append(kept(name, "x-request-id", text(inline(header_variable("x-request-id"))), default))
    return geo, tuple(maps)


def apply_edits(lines: HeaderLines, edits: HeaderEdits, texts: Texts) -> HeaderLines:
    """`lines` after `edits`: remove, set, add. A header that is only added to keeps the client's value."""
    out = dict(lines)
    for name in edits.remove:
        out[name] = ()
    for name, value in edits.set:
        out[name] = (texts.of(value),)
    for name, value in edits.add:
        before = out[name] if name in out else (text(inline(header_variable(name))),)
        out[name] = (*before, texts.of(value))
    return out


def header_directives(lines: HeaderLines, more: tuple[Header, ...] = ()) -> tuple[Header, ...]:
    """As directives, and `more`; nginx drops a header whose value is empty."""
    every = (Header(header_name(name), value) for name, values in lines.items() for value in values or (EMPTY,))
    return (*every, *more)


def grpc_headers(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    """As the gRPC module sends them: the host as `:authority`, which has to be the first, and not as a field beside."""
    host = next(each for each in headers if each.name == _HOST)
    rest = (replace(each, value=EMPTY) if each is host else each for each in headers)
    return (replace(host, name=Atom(":authority")), *rest)


def protocol_headers(protocol: UpstreamProtocol) -> tuple[Header, ...]:
    """The headers that depend on the protocol of the endpoints."""
    if protocol.module != "proxy":
        return ()
    return TRAILERS if protocol.http2 else UPGRADES


def header_name(name: str) -> Atom | Literal:
    """A header's name in its usual spelling."""
    spelled = _SPELLING.get(name) or "-".join(word.capitalize() for word in name.split("-"))
    return Atom(spelled) if _PLAIN.fullmatch(spelled) else Literal(spelled, "word")


def response_headers(
    start: Iterable[tuple[str, str]], edits: HeaderEdits, texts: Texts, more: Iterable[tuple[str, Text]] = ()
) -> tuple[tuple[Header, ...], str | None]:
    """The headers of an answer of nginx's own after `edits`, and its content-type (None = none). `more` are headers
    that the edits may replace."""
    replaced = {*edits.remove, *(name for name, _ in edits.set)}
    last = (*edits.set, *edits.add)
    kept = [pair for pair in start if pair[0] not in replaced]
    content_type = next((value for name, value in (*kept, *last) if name == "content-type"), None)
    every = [(name, texts.of(value)) for name, value in kept]
    every += [pair for pair in more if pair[0] not in replaced]
    every += [(name, texts.of(value)) for name, value in last]
    return tuple(Header(header_name(name), value) for name, value in every if name != "content-type"), content_type


def _server(at: HttpServer) -> Iterator[Line]:
    if at.listener.underscores:  # this admits other characters as well, such as dots
        yield directive("underscores_in_headers", "on")
        yield directive("ignore_invalid_headers", "off")


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
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


HEADERS = Contributor(server=_server, objections=_objections)
