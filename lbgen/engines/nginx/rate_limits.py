"""Limits of requests: their rate and how many run at once, counted in zones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.forwarded_headers import client
from lbgen.engines.nginx.names import reference
from lbgen.engines.nginx.request_values import key_objections
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import Contributor, HttpRoute
from lbgen.engines.text import Atom
from lbgen.plan.policy import Key, KeyKind, RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.nginx.statements import Line
    from lbgen.engines.nginx.view import HttpBlock
    from lbgen.plan.model import Plan

_SINGLE_COUNTER_ZONE = "64k"
_ALL_ZONES_MIB, _ZONE_MAX_MIB, _ZONE_MIN_MIB = 256, 10, 1
"""Zones with a counter per value of a key; 1 MiB holds some 8,000 values."""


def format_rate(limit: RateLimit) -> str | None:
    """The rate in nginx's notation, None when it is no whole number per second or minute."""
    if limit.amount % limit.seconds == 0:
        return f"{limit.amount // limit.seconds}r/s"
    minute, rest = divmod(limit.amount * 60, limit.seconds)
    return None if rest or not minute else f"{minute}r/m"


def _guard(at: HttpRoute, _: bool) -> Iterator[Line]:
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


RATE_LIMITS = Contributor(guard=_guard, objections=_objections)
