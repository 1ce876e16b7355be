"""The client of a request: headers that say it to endpoints, proxies in front that may state it, and its address."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines.nginx.definitions import Definitions, Section
from lbgen.engines.nginx.names import header_name, inline, network, reference
from lbgen.engines.nginx.request_values import header_variable
from lbgen.engines.nginx.statements import Entry, Geo, Header, Network, Text
from lbgen.engines.nginx.strings import EMPTY, directive, text
from lbgen.engines.nginx.view import Contributor, HeaderLines, HttpBlock, HttpServer, L4Server, Lines, http_routes
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Listener, Plan
from lbgen.plan.policy import KeyKind
from lbgen.plan.route_values import route_facts, shared_facts
from lbgen.plan.values import Fact, Placeholder

UPGRADES = (
    Header(Atom("Connection"), text(inline("connection_upgrade"))),
    Header(Atom("Upgrade"), text(inline("upgrade"))),
)
"""To HTTP/1 endpoints; HTTP/2 has no upgrades."""
_FORWARDED = ("for", "proto", "host", "port")
_CLIENT = text(inline("remote_addr"))
_EVERY_ADDRESS = ("0.0.0.0/0", "::/0")


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
            key = (x.trusted_proxies, x.client_header, x.forwarded_headers, x.request_id, peer, x.public_port)
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
    if trust and (stated := listener.client_header) is not None:
        lines[stated] = (text(inline(trust.name("passed_client"))),)
        lines["x-forwarded-for"] = (_CLIENT,) if listener.forwarded_headers else ()
    if listener.real_ip:
        lines["x-real-ip"] = (_CLIENT,)
    if listener.forwarded:
        lines["forwarded"] = (_forwarded(listener, trust, alone=alone),)
    if trust:
        request_id = trust.name("kept_request_id" if listener.request_id else "passed_request_id")
        lines["x-request-id"] = (text(inline(request_id)),)
    else:
        lines["x-request-id"] = (text(inline("request_id")),) if listener.request_id else ()
    return lines | {"http2-settings": (), "proxy-connection": (), "trailer": ()}


def _forwarded(listener: Listener, trust: Trust | None, *, alone: bool) -> Text:
    """The value of Forwarded: an element of our own, behind those of a trusted peer."""
    node, _ = _forwarded_node(listener, trust)
    extends = trust is not None and listener.extends_forwarded
    kept = [inline(trust.name("kept_forwarded"))] if trust and extends else []
    proto = listener.scheme if alone else inline("scheme")
    return text(*kept, "for=", inline(node), ";host=", inline("rfc7239_host"), ";proto=", proto)


def _forwarded_node(listener: Listener, trust: Trust | None) -> tuple[str, str]:
    """The variable for `for`, and the one with its address."""
    if trust is not None and trust.peer != "remote_addr" and listener.extends_forwarded:
        return "rfc7239_peer", trust.peer
    return "rfc7239_node", "remote_addr"


def _define_forwarded(listener: Listener, trust: Trust | None, definitions: Definitions) -> None:
    node, address = _forwarded_node(listener, trust)
    for name, source, special, quoted in (
        (node, address, ":", text('"[', inline(address), ']"')),
        ("rfc7239_host", "endpoint_host", r"[^\w.~%!$&'*+-]", text('"', inline("endpoint_host"), '"')),
    ):
        if definitions.first(name):
            notes = ("RFC 7239: what is no token is quoted.",) if name == node else ()
            entry = Entry(Literal(special, "regex"), quoted)
            definitions.map(Section.HEADS, name, text(inline(source)), entry, default=text(inline(source)), notes=notes)


def _define(trust: Trust, definitions: Definitions, *, alone: bool) -> None:
    """The geo block and the maps behind the headers of listeners with trusted proxies."""
    listener = trust.listener
    origin = f"{listener.field}.trusted_proxies"
    trusted = trust.name("trusted")
    networks = tuple(Network(network(n), 1) for n in listener.trusted_proxies)
    source = reference(trust.peer) if trust.peer != "remote_addr" else None
    definitions.add(Section.TRUST, Geo(Atom(origin), reference(trusted), networks, source=source))

    def keep(name: str, header: str, value: Text, default: Text) -> None:
        """`value` when a trusted peer sent the header, else the default."""
        source = text(inline(trusted), ":", inline(header_variable(header)))
        entry = Entry(Literal("^1:.", "regex"), value)
        definitions.map(Section.TRUST, trust.name(name), source, entry, default=default, origin=origin)

    own = _own_values(listener, trust.peer, alone=alone)
    if listener.client_header is not None:
        keep("passed_client", listener.client_header, text(inline(header_variable(listener.client_header))), EMPTY)
    if listener.forwarded and listener.extends_forwarded:
        keep("kept_forwarded", "forwarded", text(inline("http_forwarded"), ", "), EMPTY)
    for what in _FORWARDED[listener.client_header is not None :]:
        header = f"x-forwarded-{what}"
        sent = inline(header_variable(header))
        if not listener.forwarded_headers:
            keep(f"passed_{what}", header, text(sent), EMPTY)
            continue
        value = text(sent, ", ", inline(trust.peer)) if what == "for" else text(sent)
        keep(f"forwarded_{what}", header, value, text(own[what]))
    name, default = (
        ("kept_request_id", text(inline("request_id"))) if listener.request_id else ("passed_request_id", EMPTY)
    )
    keep(name, "x-request-id", text(inline(header_variable("x-request-id"))), default)


def real_ip_listeners(plan: Plan) -> frozenset[str]:
    """Listeners where $remote_addr must be the client behind trusted proxies: a limit counts by it, endpoints get it, a
    value holds it, or it stands in another field than X-Forwarded-For, which is all that a geo block reads."""
    counting = {
        route.name
        for route in plan.routes
        for counter in (route.rate_limit, route.concurrency)
        if counter is not None and counter.key.kind is KeyKind.CLIENT_IP
    }
    counting |= {route.name for route in plan.routes if Placeholder(Fact.CLIENT_IP) in route_facts(route)}
    return frozenset(
        x.name
        for x in plan.listeners
        if x.trusted_proxies
        and not x.proxy_protocol
        and (
            x.real_ip
            or x.client_header is not None
            or any(rule.route in counting for table in x.hosts for rule in table.rules)
            or Placeholder(Fact.CLIENT_IP) in shared_facts(x, http_routes(plan, x))
        )
    )


def header_directives(lines: HeaderLines, more: tuple[Header, ...] = ()) -> tuple[Header, ...]:
    """As directives, and `more`; nginx drops a header whose value is empty."""
    every = (Header(header_name(name), value) for name, values in lines.items() for value in values or (EMPTY,))
    return (*every, *more)


def grpc_headers(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    """As the gRPC module sends them: the host as `:authority`, which has to be the first, and not as a field beside."""
    host = next(each for each in headers if each.name == Atom("Host"))
    rest = (replace(each, value=EMPTY) if each is host else each for each in headers)
    return (replace(host, name=Atom(":authority")), *rest)


def client(on: HttpBlock) -> Atom:
    """The variable with the client behind trusted proxies."""
    stated = on.real_ip or any(x.proxy_protocol for x in on.listeners)
    return unmapped_address(on.definitions, "remote_addr", "client") if stated else Atom("$binary_remote_addr")


def peer(on: HttpBlock) -> Atom:
    """The variable with the TCP peer, or the source that a PROXY header names."""
    return unmapped_address(on.definitions, "connected", "peer") if on.real_ip else client(on)


def asks_peer(definitions: Definitions) -> bool:
    """Whether something has asked for the variable of `peer`."""
    return ("unmapped", "peer") in definitions.known


def unmapped_address(definitions: Definitions, source: str, name: str) -> Atom:
    """The variable with the address `source`, of a mapped one the IPv4 address."""
    if definitions.first("unmapped", name):
        four = Entry(Literal("^::ffff:(?<four>[0-9.]+)$", "regex"), text(inline("four")))
        definitions.map(Section.CLIENTS, name, text(inline(source)), four, default=text(inline(source)))
    return reference(name)


def _http(on: HttpBlock, _: bool) -> None:
    trusts = trust_by_listener(on.listeners, on.real_ip)
    for trust in dict.fromkeys(trusts.values()):
        _define(trust, on.definitions, alone=len(on.listeners) == 1)
    for listener in on.listeners if on.pools else ():
        if listener.forwarded:
            _define_forwarded(listener, trusts.get(listener.name), on.definitions)


def _server(at: HttpServer) -> Lines:
    listener = at.listener
    if listener.proxy_protocol:
        yield from _stated_by(_EVERY_ADDRESS)
        yield directive("real_ip_header", "proxy_protocol")
    elif listener.name in at.on.real_ip:
        yield from _stated_by(listener.trusted_proxies)
        yield directive("real_ip_header", header_name(listener.client_header or "x-forwarded-for"))
        yield directive("real_ip_recursive", "on")
    own = at.on.headers[listener.name]
    if own != at.on.shared_headers:
        for each in header_directives(own, UPGRADES):
            yield directive("proxy_set_header", each.name, each.value)
        if at.on.has_grpc:
            for each in grpc_headers(header_directives(own)):
                yield directive("grpc_set_header", each.name, each.value)


def _stream(at: L4Server) -> Lines:
    if at.listener.proxy_protocol:
        yield from _stated_by(_EVERY_ADDRESS)


def _stated_by(peers: tuple[str, ...]) -> Lines:
    """The peers that may state the client's address."""
    for each in peers:
        yield directive("set_real_ip_from", network(each))


FORWARDED_HEADERS = Contributor(http=_http, server=_server, stream=_stream)
