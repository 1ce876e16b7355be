"""The view for a plan: a virtual server per listener, with the endpoints of its route as real servers."""

from __future__ import annotations

from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.engines.keepalived.direct import addresses, is_direct
from lbgen.engines.keepalived.health_checks import check
from lbgen.engines.keepalived.names import VRRP, family, is_every_address, mark, table_name
from lbgen.engines.keepalived.upstreams import backups, forward_of, members, scheduler
from lbgen.engines.keepalived.view import EndpointView, Floating, Server, Service, Sorry, Table, View
from lbgen.engines.text import Atom
from lbgen.plan.model import Listener, Plan, Protocol
from lbgen.version import VERSION

if TYPE_CHECKING:
    from lbgen.engines.keepalived.upstreams import Member

_NAME = r"[A-Za-z0-9._-]*"
_WORD = r"[a-z0-9_][a-z0-9._/-]*"
_ADDRESS = r"[0-9a-f.:]+"
# The kernel keeps timeouts in 32 bits of clock ticks; this is the most at 1000 ticks per second.
_MAX_SECONDS = 2_147_483


def build(plan: Plan) -> View:
    """The view of a plan whose listeners are all of L4, which the verdicts ensure."""
    services = tuple(_service(plan, x, index) for index, x in enumerate(plan.listeners) if x.l4_rules)
    families = dict.fromkeys(x.family.text for x in services)
    return View(
        lbgen=Atom(VERSION),
        topology=Atom.of(_NAME, plan.name),
        name=Atom.of(_WORD, table_name(plan)),
        tcp=_idle(plan, Protocol.TCP),
        udp=_idle(plan, Protocol.UDP),
        floating=_floating(plan),
        direct=is_direct(plan),
        services=services,
        tables=tuple(Table(Atom(word), tuple(x for x in services if x.family.text == word)) for word in families),
    )


def _floating(plan: Plan) -> Floating | None:
    """None unless the topology has text for VRRP, which names the interface."""
    named = dict.fromkeys(str(ip_address(x.address)) for x in plan.listeners if not is_every_address(x.address))
    if VRRP not in dict(plan.options("keepalived").verbatim) or not named:
        return None
    four, six = (tuple(_address(x) for x in named if (":" in x) is wanted) for wanted in (False, True))
    name = plan.tier.tier if plan.tier is not None else ""
    topology = plan.tier.topology if plan.tier is not None else plan.name
    router = sha256(f"{topology}/{name}".encode()).digest()[0] % 255 + 1  # the same on every replica
    return Floating(router, four or six, six if four else ())


def build_endpoints(plan: Plan) -> tuple[EndpointView, ...]:
    """The views of the hosts of endpoints, with direct forwarding."""
    return tuple(
        EndpointView(
            Atom(VERSION),
            Atom.of(_NAME, plan.name),
            Atom.of(_WORD, table_name(plan)),
            _address(host),
            ":" in host,
            tuple(_address(x) for x in every),
        )
        for host, every in addresses(plan).items()
    )


def _idle(plan: Plan, protocol: Protocol) -> int | None:
    found = [
        forward_of(plan.route(rule.route)).timeouts.idle
        for x in plan.listeners
        if x.protocol is protocol
        for rule in x.l4_rules
    ]
    if not found:
        return None
    return min(-(-found[0] // 1000), _MAX_SECONDS) if found[0] else _MAX_SECONDS


def _service(plan: Plan, listener: Listener, index: int) -> Service:
    route = plan.route(listener.l4_rules[0].route)  # more than one rule is refused: they differ by sources or names
    spare = backups(plan, route)
    return Service(
        name=Atom.of(_WORD, listener.name),
        field=Atom(listener.field),
        family=Atom(family(listener.address)),
        address=None if is_every_address(listener.address) else _address(listener.address),
        protocol=Atom(listener.protocol.value),
        port=listener.port,
        mark=mark(index),
        scheduler=Atom(scheduler(plan, route)),
        servers=tuple(_server(x) for x in members(plan, route)),
        sorry=Sorry(Atom(spare[0].field), _address(spare[0].host), spare[0].port) if spare else None,
    )


def _server(member: Member) -> Server:
    end, pool = member.endpoint, member.pool
    return Server(
        field=Atom(end.field),
        address=_address(end.host),
        port=end.port,
        weight=member.weight,
        limit=pool.max_per_endpoint,
        check=check(pool, end),
    )


def _address(text: str) -> Atom:
    return Atom.of(_ADDRESS, str(ip_address(text)))
