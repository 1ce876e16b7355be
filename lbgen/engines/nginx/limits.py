"""Limits of sizes: bodies of requests, their heads and targets; and of connections at L4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.statements import Check, Entry, Line
from lbgen.engines.nginx.strings import directive, text
from lbgen.engines.nginx.view import Contributor, HttpRoute, HttpServer, L4Server
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

_KIB = 1024
_BUFFERS, _BUFFER_SIZE = 4, 16 * _KIB  # as in the http block
_DEFAULT_TARGET = 8 * _KIB  # the longest target when the topology sets no limit


def _head_checks(at: HttpServer) -> Iterator[Check]:
    """Answer 414 or 431 above the limits; see also `_head_buffers`."""
    limits = at.listener.limits
    if limits.target is not None:
        yield _too_long(at, "long_target", "request_uri", f"^.{{{limits.target + 1}}}", 414)
    if limits.headers is not None:
        # $request_length includes the target, which may be short.
        most = limits.headers + max(limits.headers, limits.target or _DEFAULT_TARGET)
        yield _too_long(at, "long_head", "request_length", f"^{above(most)}$", 431)


def _too_long(at: HttpServer, kind: str, source: str, regex: str, status: int) -> Check:
    definitions, listener = at.on.definitions, at.listener
    name, is_new = definitions.named(kind, listener.name, listener.limits)
    if is_new:
        entry = Entry(Literal(regex, "regex"), Atom("1"))
        origin = f"{listener.field}.limits"
        definitions.map(Section.HEADS, name, text(inline(source)), entry, default=Atom("0"), origin=origin)
    return Check(reference(name), status)


def _head_buffers(at: HttpServer) -> Iterator[Line]:
    """Two buffers, each of which holds what the limits allow: no more fits in over HTTP/2, where nginx knows the length
    of a head as HPACK compressed it. None when those of the http block are meant."""
    limits = at.listener.limits
    if limits.headers is not None:
        yield _buffers(2, max(limits.target or _DEFAULT_TARGET, limits.headers) + _KIB)
    elif (size := (limits.target or 0) + 2 * _KIB) > _BUFFER_SIZE:
        yield _buffers(_BUFFERS, size)


def _buffers(number: int, size: int) -> Line:
    return directive("large_client_header_buffers", str(number), f"{-(-size // _KIB)}k")


def above(limit: int) -> str:
    """A regex of the decimal numbers above `limit`, leading zeros allowed: nginx compares texts only."""
    digits = str(limit)
    ways = [f"[1-9][0-9]{{{len(digits)},}}"]
    for at, digit in enumerate(digits):
        if digit != "9":
            rest = len(digits) - at - 1
            first = "9" if digit == "8" else f"[{int(digit) + 1}-9]"
            ways.append(digits[:at] + first + (f"[0-9]{{{rest}}}" if rest else ""))
    return f"0*(?:{'|'.join(ways)})"


def _body_guard(at: HttpRoute, named: bool) -> Iterator[Check | Line]:
    """nginx compares the length of a body with its limit before it goes on to a named location. Bodies without a length
    are counted as they arrive; 0 would mean no limit."""
    limit, definitions = at.route.max_body, at.on.definitions
    if limit is None:
        return
    if named:
        name, is_new = definitions.named("over", str(limit))
        if is_new:
            entry = Entry(Literal(f"^{above(limit)}$", "regex"), Atom("1"))
            definitions.map(Section.LIMITS, name, text(inline("content_length")), entry, default=Atom("0"))
        yield Check(reference(name), 413)
    yield directive("client_max_body_size", str(max(1, limit)))


def _stream(at: L4Server) -> Iterator[Line]:
    if at.listener.max_connections is not None:
        zone = f"open-{at.listener.name}"
        if at.definitions.first("zone", zone):
            at.definitions.add(Section.L4, directive("limit_conn_zone", "all", f"zone={zone}:64k"))
        yield directive("limit_conn", zone, str(at.listener.max_connections))


HEAD_LIMITS = Contributor(server=_head_buffers, checks=_head_checks)
MAX_BODY = Contributor(guard=_body_guard)
MAX_CONNECTIONS = Contributor(stream=_stream)
