"""The view for a plan: a virtual server per listener, with the endpoints of its route as real servers."""

from __future__ import annotations

import re
from hashlib import sha256
from ipaddress import ip_address

from lbgen.engines.keepalived.upstreams import VRRP, addresses, backups, is_direct, members, scheduler, table_name
from lbgen.engines.keepalived.view import Check, EndpointView, Floating, Server, Service, Sorry, Status, Table, View
from lbgen.engines.kernel import family, forward_of
from lbgen.engines.text import Atom, Literal
from lbgen.plan.addresses import is_every_address
from lbgen.plan.model import Endpoint, Listener, Plan, Pool, Protocol
from lbgen.version import VERSION

_NAME = r"[A-Za-z0-9._-]*"
_WORD = r"[a-z0-9_][a-z0-9._/-]*"
_ADDRESS = r"[0-9a-f.:]+"
# Texts of a topology are in double quotes, without `"` and `\`, which end or escape, `$`, which begins a parameter, and
# `~`, `!`, `#` and `@`, which begin sequences, comments and conditions.
_HELD = re.compile(r"[A-Za-z0-9/._?&=%:;,+*()'-]*")
# The kernel keeps timeouts in 32 bits of clock ticks; this is the most at 1000 ticks per second.
_MAX_SECONDS = 2_147_483
_MARKS = 0x6C620000  # "lb": marks below 65,536 are often used by hand


def can_hold(text: str) -> bool:
    """Whether keepalived.conf can have `text`: its parser leaves all of it alone within quotes."""
    return _HELD.fullmatch(text) is not None


def quote(text: str) -> str:
    """`text` in quotes; ValueError when it cannot be written."""
    if not can_hold(text):
        raise ValueError(f"{text!r} cannot be written in keepalived.conf")
    return f'"{text}"'


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


def build_floating(plan: Plan) -> View | None:
    """The view of a plan that another engine serves: its listeners' addresses, where the topology has text for VRRP."""
    floating = _floating(plan)
    if floating is None:
        return None
    topology, name = Atom.of(_NAME, plan.name), Atom.of(_WORD, table_name(plan))
    return View(Atom(VERSION), topology, name, None, None, floating, direct=True, services=(), tables=())


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
    topology, name = Atom.of(_NAME, plan.name), Atom.of(_WORD, table_name(plan))
    return tuple(
        EndpointView(Atom(VERSION), topology, name, _address(host), ":" in host, tuple(map(_address, every)))
        for host, every in addresses(plan).items()
    )


def _idle(plan: Plan, protocol: Protocol) -> int | None:
    for listener in plan.listeners:
        if listener.protocol is protocol and listener.l4_rules:
            idle = forward_of(plan.route(listener.l4_rules[0].route)).timeouts.idle
            return min(-(-idle // 1000), _MAX_SECONDS) if idle else _MAX_SECONDS
    return None


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
        mark=_MARKS + index + 1,
        scheduler=Atom(scheduler(plan, route)),
        servers=tuple(
            Server(
                field=Atom(x.endpoint.field),
                address=_address(x.endpoint.host),
                port=x.endpoint.port,
                weight=x.weight,
                limit=x.pool.max_per_endpoint,
                check=_check(x.pool, x.endpoint),
            )
            for x in members(plan, route)
        ),
        sorry=Sorry(Atom(spare[0].field), _address(spare[0].host), spare[0].port) if spare else None,
    )


def _check(pool: Pool, endpoint: Endpoint) -> Check | None:
    """How keepalived checks an endpoint; None when nothing does.

    keepalived asks for each `url` in turn before a failed endpoint is back, so the same one `rise` times asks for
    that many successes in a row. A failed check of an endpoint that is up is repeated `retry` times.
    """
    active = pool.active
    if active is None:
        return None
    return Check(
        path=None if active.path is None else Literal(active.path),
        urls=tuple(range(active.rise)),
        port=active.port or endpoint.port,
        statuses=tuple(Status(first, last) for first, last in active.statuses),
        interval=_seconds(active.interval),
        timeout=_seconds(active.timeout),
        retry=active.fall - 1,
    )


def _seconds(milliseconds: int) -> Atom:
    return Atom.of(r"\d+(\.\d+)?", f"{milliseconds / 1000:.3f}".rstrip("0").rstrip("."))


def _address(text: str) -> Atom:
    return Atom.of(_ADDRESS, str(ip_address(text)))
