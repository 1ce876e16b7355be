"""Limits: sizes of bodies, heads and targets; the rate and the number of requests, counted in zones; connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.definitions import Definitions, Section
from lbgen.engines.nginx.forwarded_headers import client
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.request_values import key_objections
from lbgen.engines.nginx.statements import Check, Entry, Line
from lbgen.engines.nginx.strings import directive, text
from lbgen.engines.nginx.view import Checks, Contributor, HttpBlock, HttpRoute, HttpServer, L4Server, Lines
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Plan
from lbgen.plan.policy import Key, KeyKind, RateLimit

_KIB = 1024
_BUFFERS, _BUFFER_SIZE = 4, 16 * _KIB  # as in the http block
_DEFAULT_TARGET = 8 * _KIB  # the longest target when the topology sets no limit
_SINGLE_COUNTER_ZONE = "64k"
_ALL_ZONES_MIB, _ZONE_MAX_MIB, _ZONE_MIN_MIB = 256, 10, 1
"""Zones with a counter per value of a key; 1 MiB holds some 8,000 values."""


def _head_checks(at: HttpServer) -> Checks:
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


def _head_buffers(at: HttpServer) -> Lines:
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


def _body_guard(at: HttpRoute, named: bool) -> Iterable[Check | Line]:
    """nginx compares the length of a body with its limit before it goes on to a named location. Bodies without a length
    are counted as they arrive; 0 would mean no limit."""
    limit = at.route.max_body
    if limit is None:
        return
    if named:
        yield check_length(at.on.definitions, limit, 413)
    yield directive("client_max_body_size", str(max(1, limit)))


def check_length(definitions: Definitions, limit: int, status: int) -> Check:
    """The answer to a request whose body says that it is longer than `limit` bytes."""
    name, is_new = definitions.named("over", str(limit))
    if is_new:
        entry = Entry(Literal(f"^{above(limit)}$", "regex"), Atom("1"))
        definitions.map(Section.LIMITS, name, text(inline("content_length")), entry, default=Atom("0"))
    return Check(reference(name), status)


def _stream(at: L4Server) -> Lines:
    if at.listener.max_connections is not None:
        zone = f"open-{at.listener.name}"
        if at.definitions.first("zone", zone):
            at.definitions.add(Section.L4, directive("limit_conn_zone", "all", f"zone={zone}:64k"))
        yield directive("limit_conn", zone, str(at.listener.max_connections))


def format_rate(limit: RateLimit) -> str | None:
    """The rate in nginx's notation, None when it is no whole number per second or minute."""
    if limit.amount % limit.seconds == 0:
        return f"{limit.amount // limit.seconds}r/s"
    minute, rest = divmod(limit.amount * 60, limit.seconds)
    return None if rest or not minute else f"{minute}r/m"


def _rate_guard(at: HttpRoute, _: bool) -> Lines:
    rate, concurrency = at.route.rate_limit, at.route.concurrency
    if rate is not None:
        zone = _zone(at, "limit_req_zone", f"rate-{at.route.name}", rate.key, f"rate={format_rate(rate)}")
        burst = (f"burst={rate.burst - 1}",) if rate.burst > 1 else ()
        yield directive("limit_req", f"zone={zone}", *burst, "nodelay")
    if concurrency is not None:
        zone = _zone(at, "limit_conn_zone", f"conn-{at.route.name}", concurrency.key)
        yield directive("limit_conn", zone, str(concurrency.max))


def _zone(at: HttpRoute, name: str, zone: str, key: Key, *more: str) -> str:
    """The name of a zone, in which nginx allows no colon."""
    zone = zone.replace(":", "-")
    if at.on.definitions.first("zone", zone):
        size = f"{max(_ZONE_MIN_MIB, min(_ZONE_MAX_MIB, _ALL_ZONES_MIB // max(1, at.on.keyed_limits)))}m"
        size = _SINGLE_COUNTER_ZONE if key.kind is KeyKind.ROUTE else size
        line = directive(name, _count_by(at.on, key), f"zone={zone}:{size}", *more, origin=Atom(at.route.field))
        at.on.definitions.add(Section.LIMITS, line)
    return zone


def _count_by(on: HttpBlock, key: Key) -> Atom:
    """The key of a zone; nginx does not count requests whose key is empty."""
    if key.kind is KeyKind.ROUTE:
        return Atom("all")
    return client(on) if key.kind is KeyKind.CLIENT_IP else reference(on.values.shared_header(key.name, on.listeners))


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route in plan.routes:
        limit, place = route.rate_limit, f"{route.field}.rate_limit"
        if limit is not None and format_rate(limit) is None:
            minute = max(1, round(limit.amount * 60 / limit.seconds))
            why = f"nginx counts in whole requests per second or minute; the nearest is {minute}/m"
            yield Objection(refused(why), place, "route.rate_limit")
        if limit is not None:
            yield from key_objections(limit.key, place)
        if route.concurrency is not None:
            yield from key_objections(route.concurrency.key, f"{route.field}.concurrency")


HEAD_LIMITS = Contributor(server=_head_buffers, checks=_head_checks)
MAX_BODY = Contributor(guard=_body_guard)
MAX_CONNECTIONS = Contributor(stream=_stream)
RATE_LIMITS = Contributor(guard=_rate_guard, objections=_objections)
