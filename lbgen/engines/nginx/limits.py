"""Limits: client access, request rate and concurrency, sizes of bodies and of request heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.cors import PREFLIGHT
from lbgen.engines.nginx.listeners import real_ip_from
from lbgen.engines.nginx.names import Names, inline, network, reference, unmapped
from lbgen.engines.nginx.request_values import RequestValues, key_objections
from lbgen.engines.nginx.strings import directive, text
from lbgen.engines.nginx.view import NONE, Check, Contributor, Entry, Geo, Guard, Header, HttpServer, Line, Map, Network
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Listener, Mode, Plan, Route
from lbgen.plan.policy import Access, Key, KeyKind, Limits, RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from ipaddress import IPv4Network, IPv6Network

_CLIENT = Atom("$binary_remote_addr")
_SINGLE_COUNTER_ZONE = "64k"
_ALL_ZONES_MIB, _ZONE_MAX_MIB, _ZONE_MIN_MIB = 256, 10, 1
"""Zones with a counter per value of a key; 1 MiB holds some 8,000 values."""
_KIB = 1024
_BUFFERS, _BUFFER_SIZE = 4, 16 * _KIB  # as in the http block
_DEFAULT_TARGET = 8 * _KIB  # the longest target when the topology sets no limit


class AccessGeos:
    """Geo blocks that set a variable to 1 for denied clients; equal policies share one."""

    def __init__(self, names: Names) -> None:
        self.geos: list[Geo] = []
        self._names = names
        self._known: dict[tuple[Access, tuple[str, ...]], Atom] = {}

    def variable(self, access: Access, listener: Listener, field: str) -> Atom:
        """The variable for `access`, applied to the client behind the listener's trusted proxies."""
        key = (access, listener.trusted_proxies)
        if key not in self._known:
            name = self._known[key] = reference(self._names.variable("denied", field))
            trusted = tuple(network(n) for n in listener.trusted_proxies)
            self.geos.append(Geo(Atom(field), name, geo_networks(access), geo_default(access), proxies=trusted))
        return self._known[key]


def geo_default(access: Access) -> int:
    """1 when addresses outside all listed networks are denied."""
    return int(access.allow is not None)


def geo_networks(access: Access) -> tuple[Network, ...]:
    """The listed networks with 1 for denied; nginx uses the narrowest one around an address."""
    deny, allow = _networks(access.deny), _networks(access.allow or ())
    entries = []
    for each in dict.fromkeys((*deny, *allow)):
        denied = _within(each, deny) or (access.allow is not None and not _within(each, allow))
        entries.append(Network(network(str(each)), int(denied)))
    return tuple(entries)


def _networks(texts: Iterable[str]) -> list[IPv4Network | IPv6Network]:
    return [unmapped(text) for text in texts]


def _within(inner: IPv4Network | IPv6Network, others: list[IPv4Network | IPv6Network]) -> bool:
    return any(
        inner.version == other.version and inner.prefixlen >= other.prefixlen and inner.network_address in other
        for other in others
    )


def real_ip_listeners(plan: Plan) -> frozenset[str]:
    """Listeners where $remote_addr must be the client behind trusted proxies, because a limit counts by it."""
    counting = {
        route.name
        for route in plan.routes
        for counter in (route.rate_limit, route.concurrency)
        if counter is not None and counter.key.kind is KeyKind.CLIENT_IP
    }
    return frozenset(
        x.name
        for x in plan.listeners
        if x.trusted_proxies
        and not x.proxy_protocol
        and any(rule.route in counting for table in x.hosts for rule in table.rules)
    )


def format_rate(limit: RateLimit) -> str | None:
    """The rate in nginx's notation, None when it is no whole number per second or minute."""
    if limit.amount % limit.seconds == 0:
        return f"{limit.amount // limit.seconds}r/s"
    minute, rest = divmod(limit.amount * 60, limit.seconds)
    return None if rest or not minute else f"{minute}r/m"


def is_guarded(route: Route) -> bool:
    """Whether a check or limit precedes the route's action."""
    return any(x is not None for x in (route.access, route.cors, route.rate_limit, route.concurrency, route.max_body))


class ClientAddresses:
    """Variables with addresses that limits and hashes count by; collects their maps. Only PROXY headers and
    X-Forwarded-For can state an IPv4 address as an IPv6 one (::ffff:192.0.2.7), which is the same client."""

    def __init__(self, plan: Plan) -> None:
        self.maps: list[Map] = []
        self._with_real_ip = bool(real_ip_listeners(plan))
        self._stated = self._with_real_ip or any(x.proxy_protocol for x in plan.listeners if x.mode is Mode.L7)

    def client(self) -> Atom:
        """The client behind trusted proxies."""
        return self._without_mapping("remote_addr", "client") if self._stated else _CLIENT

    def peer(self) -> Atom:
        """The TCP peer, or the source that a PROXY header names."""
        if not self._with_real_ip:
            return self.client()
        return self._without_mapping("connected", "peer")

    def _without_mapping(self, source: str, name: str) -> Atom:
        variable = reference(name)
        if all(each.name != variable for each in self.maps):
            self.maps.append(unmapping_map(source, name))
        return variable


def unmapping_map(source: str, name: str) -> Map:
    """The map with the address `source`, of a mapped one the IPv4 address."""
    four = Entry(Literal("^::ffff:(?<four>[0-9.]+)$", "regex"), text(inline("four")))
    return Map(NONE, text(inline(source)), reference(name), text(inline(source)), (four,))


class RouteGuards:
    """Builds the guards of routes and collects the zones, maps and geo blocks of the http block."""

    def __init__(self, names: Names, plan: Plan, values: RequestValues) -> None:
        self.access = AccessGeos(names)
        self.addresses = ClientAddresses(plan)
        self.zones: list[Line] = []
        self._sized: list[Map] = []
        self._names = names
        self._values = values
        self._listeners = [x for x in plan.listeners if x.mode is Mode.L7]
        counters = [c for route in plan.routes for c in (route.rate_limit, route.concurrency) if c is not None]
        keyed = sum(c.key.kind is not KeyKind.ROUTE for c in counters)
        self._zone_size = f"{max(_ZONE_MIN_MIB, min(_ZONE_MAX_MIB, _ALL_ZONES_MIB // max(1, keyed)))}m"
        self._zones: dict[str, Line] = {}
        self._sizes: dict[int, Atom] = {}

    @property
    def maps(self) -> tuple[Map, ...]:
        return (*self.addresses.maps, *self._sized)

    def guard(self, route: Route, listener: Listener, add: tuple[Header, ...], *, named: bool) -> Guard | None:
        """The guard of `route` in a location, None when nothing is checked; `add` are the headers of answers made
        here. nginx compares the length of a body with its limit before it goes on to a `named` location."""
        checks, lines = [], []
        if route.access is not None:
            denied = self.access.variable(route.access, listener, f"{route.field}.access")
            checks.append(Check(denied, 403))
        if route.cors is not None:
            checks.append(PREFLIGHT)
        if route.max_body is not None:
            if named:
                checks.append(Check(self._too_large(route.max_body), 413))
            # Bodies without a length are counted as they arrive; 0 would mean no limit.
            lines.append(directive("client_max_body_size", str(max(1, route.max_body))))
        if route.rate_limit is not None:
            lines.append(self._rate(route, route.rate_limit))
        if route.concurrency is not None:
            zone = self._zone("limit_conn_zone", f"conn:{route.name}", route.concurrency.key, route)
            lines.append(directive("limit_conn", zone, str(route.concurrency.max)))
        return Guard(tuple(checks), add, tuple(lines)) if checks or lines else None

    def _rate(self, route: Route, limit: RateLimit) -> Line:
        zone = self._zone("limit_req_zone", f"rate:{route.name}", limit.key, route, f"rate={format_rate(limit)}")
        burst = (f"burst={limit.burst - 1}",) if limit.burst > 1 else ()
        return directive("limit_req", f"zone={zone}", *burst, "nodelay")

    def _zone(self, name: str, zone: str, key: Key, route: Route, *more: str) -> str:
        """Declare a zone and return its name, in which nginx allows no colon."""
        zone = zone.replace(":", "-")
        if zone not in self._zones:
            size = _SINGLE_COUNTER_ZONE if key.kind is KeyKind.ROUTE else self._zone_size
            line = directive(name, self._count_by(key), f"zone={zone}:{size}", *more, origin=Atom(route.field))
            self._zones[zone] = line
            self.zones.append(line)
        return zone

    def _count_by(self, key: Key) -> Atom:
        """The key of a zone; nginx does not count requests whose key is empty."""
        if key.kind is KeyKind.ROUTE:
            return Atom("all")
        if key.kind is KeyKind.CLIENT_IP:
            return self.addresses.client()
        return reference(self._values.shared_header(key.name, self._listeners))

    def _too_large(self, limit: int) -> Atom:
        if limit not in self._sizes:
            name = self._sizes[limit] = reference(self._names.variable("over", str(limit)))
            entry = Entry(Literal(f"^{above(limit)}$", "regex"), Atom("1"))
            self._sized.append(Map(NONE, text(inline("content_length")), name, Atom("0"), (entry,)))
        return self._sizes[limit]


class HeadLimits:
    """Builds the checks of listeners on the sizes of request targets and heads; collects their maps."""

    def __init__(self, names: Names) -> None:
        self.maps: list[Map] = []
        self._names = names
        self._known: dict[Limits, tuple[Check, ...]] = {}

    def checks(self, listener: Listener) -> tuple[Check, ...]:
        """Answer 414 or 431 above the limits; see also `_head_buffers`."""
        limits = listener.limits
        if limits not in self._known:
            checks = []
            if limits.target is not None:
                checks.append(self._check("long_target", listener, "request_uri", f"^.{{{limits.target + 1}}}", 414))
            if limits.headers is not None:
                # $request_length includes the target, which may be short.
                most = limits.headers + max(limits.headers, limits.target or _DEFAULT_TARGET)
                checks.append(self._check("long_head", listener, "request_length", f"^{above(most)}$", 431))
            self._known[limits] = tuple(checks)
        return self._known[limits]

    def _check(self, kind: str, listener: Listener, source: str, regex: str, status: int) -> Check:
        name = reference(self._names.variable(kind, listener.name))
        entry = Entry(Literal(regex, "regex"), Atom("1"))
        self.maps.append(Map(Atom(f"{listener.field}.limits"), text(inline(source)), name, Atom("0"), (entry,)))
        return Check(name, status)


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


def _client_address(at: HttpServer) -> Iterator[Line]:
    if at.listener.proxy_protocol:
        yield from real_ip_from()
        yield directive("real_ip_header", "proxy_protocol")
    elif at.real_ip:
        yield from real_ip_from(at.listener.trusted_proxies)
        yield directive("real_ip_header", "X-Forwarded-For")
        yield directive("real_ip_recursive", "on")


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


LIMITS = Contributor(server=_head_buffers, objections=_objections)
CLIENT_ADDRESSES = Contributor(server=_client_address)
