"""The view for a plan: one table per address family, a map per route, rules per listener."""

from __future__ import annotations

from ipaddress import ip_address

from lbgen.engines.nftables.names import family, table_name
from lbgen.engines.nftables.upstreams import balance, forward_of, shares, spans
from lbgen.engines.nftables.view import Element, Map, Port, Table, View
from lbgen.engines.text import Atom
from lbgen.plan.model import Balance, Endpoint, Listener, Plan, Route
from lbgen.version import VERSION

_WORD = r"[a-z0-9_][a-z0-9._-]*"
_ADDRESS = r"[0-9a-f.:]+"
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
# The kernel keeps timeouts in 32 bits of clock ticks; this is the most at 1000 ticks per second.
_MAX_SECONDS = 2_147_483


def build(plan: Plan) -> View:
    """The view of a plan with L4 TCP listeners of one rule each, which the verdicts ensure."""
    tables = []
    for word, loopback in (("ip", "127.0.0.0/8"), ("ip6", "::1")):
        ports = tuple(_port(plan, x) for x in plan.listeners if family(x.address) == word)
        if ports:
            maps = {port.map.name.text: port.map for port in ports}
            tables.append(Table(Atom(word), Atom(loopback), ports, tuple(maps.values())))
    return View(Atom(VERSION), Atom.of(r"[A-Za-z0-9._-]*", plan.name), _word(table_name(plan)), tuple(tables))


def _word(text: str) -> Atom:
    return Atom.of(_WORD, text)


def _port(plan: Plan, listener: Listener) -> Port:
    route = plan.route(listener.l4_rules[0].route)
    idle = forward_of(route).timeouts.idle
    return Port(
        name=_word(f"lb_{listener.name}"),
        field=Atom(listener.field),
        address=None if listener.address in _ANY else _address(listener.address),
        port=listener.port,
        map=_map(plan, route),
        idle=min(-(-idle // 1000), _MAX_SECONDS) if idle else _MAX_SECONDS,
    )


def _map(plan: Plan, route: Route) -> Map:
    every = shares(plan, route)
    method = balance(plan, route)
    counter = method is Balance.ROUND_ROBIN
    elements = tuple(_element(x.first, x.last, x.endpoint) for x in spans(every, interleaved=counter))
    return Map(
        name=_word(f"lb_{route.name}"),
        field=Atom(route.field),
        slots=sum(share.slots for share in every),
        counter=counter,
        random=method is Balance.RANDOM,
        elements=elements,
        endpoints=tuple(_element(0, 0, share.endpoint) for share in every),
    )


def _element(first: int, last: int, endpoint: Endpoint) -> Element:
    return Element(first, last, _address(endpoint.host), endpoint.port)


def _address(text: str) -> Atom:
    return Atom.of(_ADDRESS, str(ip_address(text)))
