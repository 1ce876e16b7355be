"""What a listener tells endpoints about the client, and a route's edits -> proxy_set_header and add_header lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.upstream_protocols import GRPC, PROXY
from lbgen.engines.nginx.view import Entry, Geo, Header, Map, Network
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.connection_options import Sent
    from lbgen.engines.nginx.strings import Texts
    from lbgen.engines.nginx.view import Text
    from lbgen.plan.model import HeaderEdits, Listener

Lines = dict[str, tuple["Text", ...]]
"""Header name (lower case) to its lines; no line at all drops the header."""

_OF_CONNECTIONS = ("connection", "upgrade")
_FORWARDED = ("for", "proto", "host", "port")
_PLAIN = re.compile(r"[0-9A-Za-z_.-]+")
_NAMES = {"http2-settings": "HTTP2-Settings", "x-request-id": "X-Request-ID", "te": "TE"}


@dataclass(frozen=True, slots=True)
class Trust:
    """The maps for listeners that believe the same proxies and make the same headers."""

    listener: Listener
    suffix: str
    peer: str  # the variable with the address of the TCP peer

    def name(self, base: str) -> str:
        return f"{base}{self.suffix}"


def peer(listener: Listener, replaced: frozenset[str]) -> str:
    """The variable with the address of the peer; nginx puts the client's in its place on the listeners `replaced`."""
    return "realip_remote_addr" if listener.name in replaced else "remote_addr"


def trusts(listeners: Iterable[Listener], replaced: frozenset[str] = frozenset()) -> dict[str, Trust]:
    """By listener; those that believe nobody have none."""
    shared: dict[tuple[object, ...], Trust] = {}
    found: dict[str, Trust] = {}
    for listener in listeners:
        address = peer(listener, replaced)
        key = (
            *(listener.trusted_proxies, listener.forwarded_headers, listener.request_id, address),
            listener.public_port,
        )
        if listener.trusted_proxies:
            suffix = f"_{len(shared) + 1}" if shared else ""
            found[listener.name] = shared.setdefault(key, Trust(listener, suffix, address))
    return found


def _ours(listener: Listener, address: str) -> dict[str, str | Atom]:
    """What the X-Forwarded headers say of a request that came from nobody who is believed; `address` is a variable."""
    ours: dict[str, str | Atom] = {
        "for": inline(address),
        "proto": inline("scheme"),
        "host": inline("http_host"),
        "port": inline("server_port"),
    }
    if listener.public_port is not None:  # $server_port is where nginx listens
        ours["port"] = str(listener.public_port)
    return ours


def standard(listener: Listener, trust: Trust | None = None) -> Lines:
    """The header lines of every request that this listener passes on."""
    lines: Lines = {"host": (text(inline("endpoint_host")),)}
    ours = _ours(listener, "remote_addr")
    for what in _FORWARDED:
        known = ours[what]
        if trust:
            known = inline(trust.name(f"{'forwarded' if listener.forwarded_headers else 'passed'}_{what}"))
        lines[f"x-forwarded-{what}"] = (text(known),) if trust or listener.forwarded_headers else ()
    if trust:
        request_id = trust.name("kept_request_id" if listener.request_id else "passed_request_id")
        lines["x-request-id"] = (text(inline(request_id)),)
    else:
        lines["x-request-id"] = (text(inline("request_id")),) if listener.request_id else ()
    lines["connection"] = (text(inline("connection_upgrade")),)
    lines["upgrade"] = (text(inline("upgrade")),)
    lines["http2-settings"] = (text(inline("http2_settings")),)
    return lines | {"proxy-connection": (), "trailer": ()}


def trust_maps(trust: Trust, client: Sent) -> tuple[Geo, tuple[Map, ...]]:
    """What the headers of a listener with trusted proxies are made of."""
    listener = trust.listener
    origin = Atom(f"{listener.field}.trusted_proxies")
    trusted = trust.name("trusted")
    networks = tuple(Network(Atom.of(r"[0-9a-fA-F.:/]+", n), 1) for n in listener.trusted_proxies)
    changed = trust.peer != "remote_addr"
    geo = Geo(origin, Atom(f"${trusted}"), networks, source=reference(trust.peer) if changed else None)

    def kept(name: str, header: str, value: Text, default: Text) -> Map:
        """The client's value from a trusted peer that sent one, else the default."""
        source = text(inline(trusted), ":", client(header))
        entry = Entry(Literal("^1:(?!(?:, )*$)", "regex"), value)
        return Map(origin, source, Atom(f"${trust.name(name)}"), default, (entry,))

    maps: list[Map] = []
    ours = _ours(listener, trust.peer)
    for what in _FORWARDED:
        header = f"x-forwarded-{what}"
        sent = client(header)
        if not listener.forwarded_headers:
            maps.append(kept(f"passed_{what}", header, text(sent), EMPTY))
            continue
        value = text(sent)
        if what == "for":
            value = text(sent, ", ", inline(trust.peer))
        maps.append(kept(f"forwarded_{what}", header, value, text(ours[what])))
    name, default = (
        ("kept_request_id", text(inline("request_id"))) if listener.request_id else ("passed_request_id", EMPTY)
    )
    maps.append(kept(name, "x-request-id", text(client("x-request-id")), default))
    return geo, tuple(maps)


def edited(lines: Lines, edits: HeaderEdits, texts: Texts, client: Sent) -> Lines:
    """`lines` after `edits`: remove, set, add. A header that is only added to keeps what the client sent."""
    out = dict(lines)
    for name in edits.remove:
        out[name] = ()
    for name, value in edits.set:
        out[name] = (texts.of(value),)
    for name, value in edits.add:
        before = out[name] if name in out else (text(client(name)),)
        out[name] = (*before, texts.of(value))
    return out


def printed(lines: Lines, module: str = PROXY) -> tuple[Header, ...]:
    """As directives; nginx drops a header whose value is empty. HTTP/2 knows no upgrades."""
    gone = _OF_CONNECTIONS if module == GRPC else ()
    return tuple(
        Header(shown(name), value)
        for name, values in lines.items()
        for value in (() if name in gone else values) or (EMPTY,)
    )


@cache
def shown(name: str) -> Atom | Literal:
    """A header's name the way people write it."""
    written = _NAMES.get(name) or "-".join(word.capitalize() for word in name.split("-"))
    return Atom(written) if _PLAIN.fullmatch(written) else Literal(written, "word")


def response_lines(
    start: Iterable[tuple[str, str]], edits: HeaderEdits, texts: Texts, more: Iterable[tuple[str, Text]] = ()
) -> tuple[tuple[Header, ...], str | None]:
    """The header lines of an answer that nginx makes by itself, content-type apart (None = none); `more` comes before
    the edits."""
    gone = {*edits.remove, *(name for name, _ in edits.set)}
    last = (*edits.set, *edits.add)
    kept = [pair for pair in start if pair[0] not in gone]
    kind = next((value for name, value in (*kept, *last) if name == "content-type"), None)
    every = [(name, texts.of(value)) for name, value in kept]
    every += [pair for pair in more if pair[0] not in gone]
    every += [(name, texts.of(value)) for name, value in last]
    return tuple(Header(shown(name), value) for name, value in every if name != "content-type"), kind
