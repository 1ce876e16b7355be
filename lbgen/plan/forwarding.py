"""What reaches the endpoint for a parsed request, and the target of a redirect."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from lbgen.plan.addresses import is_within
from lbgen.plan.facts import Facts, bind
from lbgen.plan.model import (
    Endpoint,
    Forward,
    Listener,
    Plan,
    Pool,
    Redirect,
    Rewrite,
    Target,
)
from lbgen.plan.path_conditions import Path, PrefixPath
from lbgen.plan.request import ParsedRequest, connection_options, to_wire
from lbgen.plan.route import HeaderEdits
from lbgen.plan.values import PROXY_FIELDS as PROXY_FIELDS
from lbgen.plan.values import Fact, Placeholder, Template, Value, join_parts, parts_of

Lines = list[tuple[str, str | None]]
_V = TypeVar("_V", bound=str | None)

# Framing is made anew on each hop: `connection`, `content-length` and `transfer-encoding` are no part of the oracle.
_DROPPED = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "content-length"}
)
FORWARDED = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port")
FORWARDED_FOR = "x-forwarded-for"
REQUEST_ID = "x-request-id"
REAL_IP = "x-real-ip"
RFC_7239 = "forwarded"
_NO_TOKEN = re.compile(r"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
DEFAULT_PORTS = {"http": 80, "https": 443}


def is_trusted(listener: Listener, client: str) -> bool:
    """Whether the TCP peer is one of the listener's trusted proxies."""
    return is_within(client, listener.trusted_proxies)


def client_fields(listener: Listener) -> frozenset[str]:
    """The fields beside `PROXY_FIELDS` that say who the client is: those that the listener sets, and the one that it
    reads. They too come from trusted proxies alone."""
    set_here = {REAL_IP: listener.real_ip, RFC_7239: listener.forwarded}
    return frozenset({listener.client_header or FORWARDED_FOR, *(name for name, on in set_here.items() if on)}) - {
        FORWARDED_FOR
    }


def forwarded_element(address: str, listener: Listener, authority: str | None) -> str:
    """An element of Forwarded (RFC 7239): `for=192.0.2.1;host=shop.example;proto=https`."""
    pairs = [("for", f"[{address}]" if ":" in address else address), ("host", authority), ("proto", listener.scheme)]
    return ";".join(f'{name}="{v}"' if _NO_TOKEN.search(v) else f"{name}={v}" for name, v in pairs if v)


def state_client(listener: Listener, *addresses: str) -> tuple[str, str]:
    """The header line in which a trusted proxy states the client, the first of `addresses`, and proxies behind it."""
    if listener.client_header == RFC_7239:
        return "Forwarded", ", ".join(f'for="[{each}]"' if ":" in each else f"for={each}" for each in addresses)
    return listener.client_header or FORWARDED_FOR, ", ".join(addresses)


def forwarded_headers(request: ParsedRequest, listener: Listener, peer: str) -> Lines:
    """The header lines that go on before any edit, Host first; None stands for a value that the proxy makes up.
    `request.client` is the client that `peer` states where that is a trusted proxy."""
    trust = is_trusted(listener, peer)
    ours = {
        FORWARDED_FOR: peer if listener.client_header is None else request.client,
        "x-forwarded-proto": listener.scheme,
        "x-forwarded-host": request.authority,
        "x-forwarded-port": str(listener.client_port),
    }
    proxy_fields = PROXY_FIELDS | client_fields(listener)
    dropped = _DROPPED | _nominated(request)
    lines: Lines = [("host", request.authority)] if request.authority is not None else []
    for name, value in request.headers:
        if name in dropped or name == "host" or (name == "upgrade" and not is_websocket(request)):
            continue
        if name in proxy_fields and not (trust and not _made(name, listener)):
            continue
        lines.append((name, value))
    sent = {
        name: ", ".join(v for v in request.lines(name) if v) if trust and name not in dropped else ""
        for name in proxy_fields
    }
    if listener.forwarded_headers:
        for name in FORWARDED:
            made = ours[name]
            if name == FORWARDED_FOR and listener.client_header is not None:
                lines.append((name, made))
            elif name == FORWARDED_FOR and sent[name]:
                lines.append((name, f"{sent[name]}, {peer}"))
            elif sent[name] or made is not None:
                lines.append((name, sent[name] or made))
    if listener.real_ip:
        lines.append((REAL_IP, request.client))
    if listener.forwarded:
        element = forwarded_element(peer if listener.extends_forwarded else request.client, listener, request.authority)
        before = sent[RFC_7239] if listener.extends_forwarded else ""
        lines.append((RFC_7239, f"{before}, {element}" if before else element))
    if listener.request_id:
        lines.append((REQUEST_ID, sent[REQUEST_ID] or None))
    return lines


def _made(name: str, listener: Listener) -> bool:
    """Whether the listener writes the field. One that states clients elsewhere does not pass X-Forwarded-For on."""
    own = {
        REQUEST_ID: listener.request_id,
        REAL_IP: listener.real_ip,
        RFC_7239: listener.forwarded,
        FORWARDED_FOR: listener.forwarded_headers or listener.client_header is not None,
    }
    return own.get(name, name in FORWARDED and listener.forwarded_headers)


def _nominated(request: ParsedRequest) -> set[str]:
    """Headers that Connection names."""
    return connection_options(request.lines("connection")) - ({"upgrade"} if is_websocket(request) else set())


def is_websocket(request: ParsedRequest) -> bool:
    """Whether the request asks for a WebSocket."""
    asked = [value.lower() for value in request.lines("upgrade")] == ["websocket"]
    return request.method == "GET" and asked and "upgrade" in connection_options(request.lines("connection"))


def apply_edits(lines: Iterable[tuple[str, _V]], *edits: HeaderEdits) -> list[tuple[str, _V | str]]:
    """`lines` after each of `edits` (remove, set, add), whose values are texts, see `evaluate_edits`."""
    found: list[tuple[str, _V | str]] = [*lines]
    for each in edits:
        gone = {*each.remove, *(name for name, _ in each.set)}
        found = [line for line in found if line[0].lower() not in gone]
        found += [(name, value) for name, value in (*each.set, *each.add) if isinstance(value, str)]
    return found


def evaluate_edits(edits: HeaderEdits, facts: Facts) -> tuple[HeaderEdits, dict[str, str]]:
    """`edits` with the values that a request gives them as latin-1 texts, and by header a regular expression of values
    that the oracle does not know. An empty value makes no line."""
    found: dict[str, list[tuple[str, Value]]] = {"set": [], "add": []}
    unknown, gone = dict[str, str](), []
    for kind, pairs in (("set", edits.set), ("add", edits.add)):
        for name, value in pairs:
            text = facts.evaluate(value)
            if text is None:
                unknown[name] = facts.pattern(value) if kind == "set" else f"(?:.*, ?)?{facts.pattern(value)}"
            elif text:
                found[kind].append((name, text))
            if not text and kind == "set":
                gone.append(name)
    return HeaderEdits(tuple(found["set"]), tuple(found["add"]), (*edits.remove, *gone)), unknown


def replace_prefix(request: ParsedRequest, matched: Path, prefix: str) -> str:
    """The request's path with the matched prefix (or matched exact path) replaced; never empty, never `//...`."""
    old = matched.value.rstrip("/")
    tail = request.path[len(old) :] if isinstance(matched, PrefixPath) else ""
    return to_wire(prefix).rstrip("/") + tail or "/"


def rewrite_target(request: ParsedRequest, matched: Path, rewrite: Rewrite | None) -> str:
    """The target that the endpoint sees."""
    if rewrite is None or (rewrite.path is None and rewrite.prefix is None):
        return request.target
    path = (
        to_wire(rewrite.path) if rewrite.path is not None else replace_prefix(request, matched, rewrite.prefix or "/")
    )
    return path + _query(request)


def redirect_location(request: ParsedRequest, matched: Path, redirect: Redirect, listener: Listener) -> str:
    """The absolute URL that a redirect leads to."""
    scheme = redirect.scheme or listener.scheme
    default = DEFAULT_PORTS[scheme]
    port = redirect.port or (default if redirect.scheme else listener.client_port)
    own = f"[{listener.address}]" if ":" in listener.address else listener.address
    host = redirect.host or request.host or own
    path = request.path
    if redirect.path is not None:
        path = to_wire(str(redirect.path))
    elif redirect.prefix is not None:
        path = replace_prefix(request, matched, redirect.prefix)
    return f"{scheme}://{host}{'' if port == default else f':{port}'}{path}{_query(request)}"


def redirect_value(redirect: Redirect, route: str, listener: Listener) -> Value | None:
    """The address of a redirect whose parts have placeholders, or that is written as a whole; None for all others."""
    if redirect.to is not None:
        return bind(redirect.to, route, listener)
    if not any(isinstance(each, Template) for each in redirect.values()):
        return None
    scheme = redirect.scheme or listener.scheme
    port = redirect.port or (DEFAULT_PORTS[scheme] if redirect.scheme else listener.client_port)
    authority = redirect.host or Template((Placeholder(Fact.HOST),))
    target = redirect.path or Template((Placeholder(Fact.PATH),))
    authority, target = bind(authority, route, listener), bind(target, route, listener)
    shown = "" if port == DEFAULT_PORTS[scheme] else f":{port}"
    return join_parts((f"{scheme}://", *parts_of(authority), shown, *parts_of(target), Placeholder(Fact.ARGS)))


def _query(request: ParsedRequest) -> str:
    return "" if request.query is None else f"?{request.query}"


def sticky_target(plan: Plan, forward: Forward, request: ParsedRequest) -> tuple[Target, Endpoint] | None:
    """The share and the endpoint that a sticky cookie of the request names; None when no cookie names any. Every
    endpoint counts as up."""
    for target in forward.targets:
        pool = plan.pool(target.pool)
        named = None if pool.sticky is None else request.cookie(pool.sticky.cookie)
        for endpoint in pool.endpoints if named is not None else ():
            if endpoint.cookie_value == named:
                return target, endpoint
    return None


def sticky_cookies(pool: Pool) -> tuple[str, ...]:
    """What Set-Cookie holds when the proxy chose an endpoint, for each endpoint of `pool`; empty without `sticky`."""
    if pool.sticky is None:
        return ()
    age = "" if pool.sticky.ttl is None else f"; Max-Age={pool.sticky.ttl}"
    rest = f"; Path=/; HttpOnly; SameSite=Lax{age}{'; Secure' if pool.sticky.secure else ''}"
    return tuple(f"{pool.sticky.cookie}={endpoint.cookie_value}{rest}" for endpoint in pool.endpoints)
