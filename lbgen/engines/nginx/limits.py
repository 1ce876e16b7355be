"""What a request must pass before its route acts: access, rate, requests under way, size of the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.access import Gatekeeper
from lbgen.engines.nginx.cors import PREFLIGHT
from lbgen.engines.nginx.matching import variable
from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.number_regex import above
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.view import NONE, Check, Entry, Gate, Line, Map
from lbgen.engines.text import Atom, Literal
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.view import Header
    from lbgen.plan.model import Listener, Route
    from lbgen.plan.policy import Key, RateLimit

_ZONE_ONE = "64k"  # of one counter
_ZONES_TOGETHER, _ZONE_MOST, _ZONE_LEAST = 256, 10, 1
"""MiB of all zones with a counter for each value of a key, and of each: one holds some 8,000 values."""


def rate(limit: RateLimit) -> str | None:
    """nginx's notation, which knows whole numbers per second or minute; None when there is none."""
    if limit.amount % limit.seconds == 0:
        return f"{limit.amount // limit.seconds}r/s"
    minute, rest = divmod(limit.amount * 60, limit.seconds)
    return None if rest or not minute else f"{minute}r/m"


def limited(route: Route) -> bool:
    """Whether nginx itself may answer a request for the route with 413 or 429."""
    return not (route.rate_limit is None and route.concurrency is None and route.max_body is None)


def gated(route: Route) -> bool:
    """Whether there is anything to pass before the route acts."""
    return route.access is not None or route.cors is not None or limited(route)


class Gates:
    """Makes the gates of routes; what belongs to the http level gathers in `zones`, `maps` and `gatekeeper`."""

    def __init__(self, names: Names, routes: Iterable[Route]) -> None:
        self.gatekeeper = Gatekeeper(names)
        self.zones: list[Line] = []
        self.maps: list[Map] = []
        self._names = names
        counters = [c for route in routes for c in (route.rate_limit, route.concurrency) if c is not None]
        keyed = sum(c.key.kind is not KeyKind.ROUTE for c in counters)
        self._size = f"{max(_ZONE_LEAST, min(_ZONE_MOST, _ZONES_TOGETHER // max(1, keyed)))}m"
        self._zones: dict[str, Line] = {}
        self._sizes: dict[int, Atom] = {}

    def of(self, route: Route, listener: Listener, add: tuple[Header, ...]) -> Gate | None:
        """The gate of `route`, None when everybody may pass; `add` are the headers of its own answers."""
        checks, lines = [], []
        if route.access is not None:
            denied = self.gatekeeper.denied(route.access, listener, f"{route.field}.access")
            checks.append(Check(denied, 403, text("Forbidden\n")))
        if route.cors is not None:
            checks.append(PREFLIGHT)
        if route.max_body is not None:
            checks.append(Check(self._too_large(route.max_body), 413, text("Content Too Large\n")))
            # Of a body without a length only what has arrived can be counted; 0 would mean no limit.
            lines.append(_line("client_max_body_size", str(max(1, route.max_body))))
        if route.rate_limit is not None:
            lines.append(self._rate(route, route.rate_limit))
        if route.concurrency is not None:
            zone = self._zone("limit_conn_zone", f"conn:{route.name}", route.concurrency.key, route)
            lines.append(_line("limit_conn", zone, str(route.concurrency.max)))
        if not checks and not lines:
            return None
        return Gate(tuple(checks), add, tuple(lines))

    def _rate(self, route: Route, limit: RateLimit) -> Line:
        zone = self._zone("limit_req_zone", f"rate:{route.name}", limit.key, route, f"rate={rate(limit)}")
        burst = (f"burst={limit.burst - 1}",) if limit.burst > 1 else ()
        return _line("limit_req", f"zone={zone}", *burst, "nodelay")

    def _zone(self, directive: str, name: str, key: Key, route: Route, *more: str) -> str:
        """Its name; a colon cannot stand in it."""
        zone = name.replace(":", "-")
        if zone not in self._zones:
            size = _ZONE_ONE if key.kind is KeyKind.ROUTE else self._size
            made = _line(directive, _key(key), f"zone={zone}:{size}", *more, origin=Atom(route.field))
            self._zones[zone] = made
            self.zones.append(made)
        return zone

    def _too_large(self, limit: int) -> Atom:
        if limit not in self._sizes:
            name = Atom(f"${self._names.variable('over', str(limit))}")
            entry = Entry(Literal(f"^{above(limit)}$", "regex"), Atom("1"))
            self.maps.append(Map(NONE, text(inline("content_length")), name, Atom("0"), (entry,)))
            self._sizes[limit] = name
        return self._sizes[limit]


def _key(key: Key) -> str:
    """What is counted together; nginx does not count an empty one."""
    if key.kind is KeyKind.ROUTE:
        return "all"
    return "$binary_remote_addr" if key.kind is KeyKind.CLIENT_IP else f"${variable(key.name)}"


def _line(name: str, *args: str, origin: Atom = NONE) -> Line:
    return Line(Atom(name), tuple(Atom(arg) for arg in args), origin)
