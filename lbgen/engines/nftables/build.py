"""The view for a plan: one table per address family, a service per listener, a map per route."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network

from lbgen.engines.kernel import family, forward_of
from lbgen.engines.nftables import health_checks
from lbgen.engines.nftables.run import endpoint_counter, route_counter
from lbgen.engines.nftables.upstreams import (
    device,
    direct_tables,
    endpoints,
    has_ranges,
    method_of,
    numbers,
    replies,
    select_name,
    shares,
    slots_name,
    spans,
    table_family,
    table_name,
)
from lbgen.engines.nftables.view import (
    Access,
    Counter,
    DirectTable,
    Element,
    Flow,
    FlowEndpoint,
    IdleTime,
    Map,
    Reply,
    ReplyView,
    Rule,
    Selection,
    Service,
    Table,
    Target,
    View,
)
from lbgen.engines.text import Atom
from lbgen.plan.addresses import is_every_address
from lbgen.plan.model import Balance, L4Rule, Listener, Plan, Protocol, Route
from lbgen.plan.policy import Access as PlanAccess
from lbgen.version import VERSION

_NAME = r"[A-Za-z0-9._-]*"
_WORD = r"[a-z0-9_][a-z0-9._/-]*"
_ADDRESS = r"[0-9a-f.:]+"
_NETWORK = r"[0-9a-f.:]+(/[0-9]+)?"
_DEVICE = r"[A-Za-z0-9_.-]{1,15}"
_LOOPBACK = {"ip": "127.0.0.0/8", "ip6": "::1"}
_TYPES = {"ip": "ipv4_addr", "ip6": "ipv6_addr"}
# The kernel keeps timeouts in 32 bits of clock ticks; this is the most at 1000 ticks per second.
_MAX_SECONDS = 2_147_483


def build(plan: Plan) -> View:
    """The view of a plan whose listeners are all of L4, which the verdicts ensure."""
    tables = (_table(plan, word, [x for x in plan.listeners if family(x.address) == word]) for word in _LOOPBACK)
    name = Atom.of(_NAME, plan.name)
    found = tuple(table for table in tables if table.by_address or table.by_port)
    include = Atom(health_checks.FILE) if health_checks.uses_agent(plan) else None
    return View(Atom(VERSION), name, _word(table_name(plan)), found, include)


def build_direct(plan: Plan) -> View:
    """The view of direct forwarding."""
    found = []
    interface = Atom.of(_DEVICE, name) if (name := device(plan)) else None
    for word in _LOOPBACK:
        listeners = [x for x in plan.listeners if family(x.address) == word]
        used = {(rule.route, x.protocol): plan.route(rule.route) for x in listeners for rule in x.l4_rules}
        services = tuple(_service(plan, x, word, ()) for x in listeners)
        flows = tuple(_flow(plan, route, protocol, word) for (_, protocol), route in used.items())
        if services:
            found.append(DirectTable(Atom(table_family(plan, word)), Atom(word), interface, services, flows))
    topology = Atom.of(_NAME, plan.name)
    return View(Atom(VERSION), topology, _word(direct_tables(plan)), tuple(found), Atom(health_checks.FILE))


def _flow(plan: Plan, route: Route, protocol: Protocol, word: str) -> Flow:
    number = numbers(plan, route)
    ends = tuple(
        FlowEndpoint(Atom(x.field), number[x.authority], _address(x.host), x.port) for x in endpoints(plan, route)
    )
    ranges = has_ranges(method_of(plan, route))
    name = select_name(route.name, protocol, word)
    slots, idle = _word(slots_name(name, ranges=ranges)), _idle(route, protocol)
    return Flow(_word(name), slots, Atom(route.field), idle.protocol, idle.seconds, ranges, ends)


def build_replies(plan: Plan) -> tuple[ReplyView, ...]:
    """The views of the rules for the hosts of endpoints, with direct forwarding."""
    name = Atom.of(_NAME, plan.name)
    found = []
    for host, pairs in replies(plan).items():
        every = tuple(
            Reply(Atom(end.field), Atom(x.protocol.value), end.port, _address(x.address), x.port) for x, end in pairs
        )
        word, incoming = Atom(family(host)), device(plan) is not None
        found.append(ReplyView(Atom(VERSION), name, _word(direct_tables(plan)), word, _address(host), incoming, every))
    return tuple(found)


def _word(text: str) -> Atom:
    return Atom.of(_WORD, text)


def _table(plan: Plan, word: str, listeners: list[Listener]) -> Table:
    used = {(rule.route, x.protocol): plan.route(rule.route) for x in listeners for rule in x.l4_rules}
    routes = {route.name: route for route in used.values()}
    steered = {name for name, route in routes.items() if health_checks.is_steered(plan, route)}
    maps = {name: _map(plan, route) for name, route in routes.items() if name not in steered}
    targets = {
        (target.address.text, target.protocol.text, target.port): target
        for (_, protocol), route in used.items()
        for target in _targets(plan, route, protocol)
    }
    services = [_service(plan, x, word, {name for name, made in maps.items() if made is None}) for x in listeners]
    times = (_idle(route, protocol) for (_, protocol), route in used.items())
    rules = (rule for service in services for rule in service.rules if rule.select is not None)
    counters = (*(Counter(x.counter, x.field) for x in rules), *(Counter(x.counter, x.field) for x in targets.values()))
    return Table(
        family=Atom(word),
        address=Atom(_TYPES[word]),
        loopback=Atom(_LOOPBACK[word]),
        by_address=tuple(x for x in services if x.address is not None),
        by_port=tuple(x for x in services if x.address is None),
        counters=tuple({x.name.text: x for x in counters}.values()),
        idle_times=tuple({x.name.text: x for x in times}.values()),
        selections=tuple(
            Selection(
                _select(route, protocol, word),
                Atom(route.field),
                Atom(protocol.value),
                has_ranges(method_of(plan, route)),
                maps.get(name),
            )
            for (name, protocol), route in used.items()
            if name in steered or maps[name] is not None
        ),
        targets=tuple(targets.values()),
        counted=tuple(x for x in targets.values() if x.limit is not None),
    )


def _service(plan: Plan, listener: Listener, word: str, closed: Collection[str]) -> Service:
    """The service of a listener; routes that are `closed` have no endpoint with a weight."""
    rules = []
    for rule in listener.l4_rules:
        rules.append(_rule(plan, listener, rule, word, closed))
        if rules[-1].sources is None:
            break  # it takes all clients
    return Service(
        name=_word(f"lb_{listener.name}"),
        field=Atom(listener.field),
        address=None if is_every_address(listener.address) else _address(listener.address),
        protocol=Atom(listener.protocol.value),
        port=listener.port,
        access=_access(listener.access, f"{listener.field}.access", word),
        limit=listener.max_connections,
        rules=tuple(rules),
        every_client=bool(rules) and rules[-1].sources is None,
        send=_word(f"lb_{listener.name}/send") if len(rules) > 1 else rules[0].select if rules else None,
    )


def _rule(plan: Plan, listener: Listener, rule: L4Rule, word: str, closed: Collection[str]) -> Rule:
    route = plan.route(rule.route)
    return Rule(
        field=Atom(rule.field),
        sources=_networks(rule.sources, word) if rule.sources else None,
        chain=_word(f"lb_{listener.name}/{rule.rank}"),
        access=_access(route.access, f"{route.field}.access", word),
        idle=_idle(route, listener.protocol).name,
        select=None if route.name in closed else _select(route, listener.protocol, word),
        counter=_word(route_counter(listener.name, route.name)),
    )


def _access(access: PlanAccess | None, field: str, word: str) -> Access:
    if access is None:
        return Access(Atom(field), None, ())
    allow = None if access.allow is None else _networks(access.allow, word)
    return Access(Atom(field), allow, _networks(access.deny, word))


def _networks(texts: Iterable[str], word: str) -> tuple[Atom, ...]:
    """Those of the family `word`, without overlaps, which nft refuses in a set."""
    networks = [network for text in texts if family(str(network := ip_network(text))) == word]
    four = collapse_addresses(x for x in networks if isinstance(x, IPv4Network))
    six = collapse_addresses(x for x in networks if isinstance(x, IPv6Network))
    return tuple(Atom.of(_NETWORK, str(x)) for x in (*four, *six))


def _select(route: Route, protocol: Protocol, word: str) -> Atom:
    return _word(select_name(route.name, protocol, word))


def _idle(route: Route, protocol: Protocol) -> IdleTime:
    """UDP and TCP have different states, so a route of both has two."""
    idle = forward_of(route).timeouts.idle
    seconds = min(-(-idle // 1000), _MAX_SECONDS) if idle else _MAX_SECONDS
    return IdleTime(_word(f"lb_idle/{seconds}/{protocol.value}"), Atom(route.field), Atom(protocol.value), seconds)


def _map(plan: Plan, route: Route) -> Map | None:
    every = shares(plan, route)
    method = method_of(plan, route)
    found = spans(every, interleaved=not has_ranges(method))
    elements = tuple(Element(x.first, x.last, _address(x.endpoint.host), x.endpoint.port) for x in found)
    slots = sum(share.slots for share in every)
    return Map(slots, method is Balance.ROUND_ROBIN, method is Balance.RANDOM, elements) if elements else None


def _targets(plan: Plan, route: Route, protocol: Protocol) -> Iterable[Target]:
    for aim in forward_of(route).targets:
        pool = plan.pool(aim.pool)
        for number, endpoint in enumerate(pool.endpoints):
            chain = _word(f"lb_{pool.name}/{protocol.value}/{number}")
            address, limit = _address(endpoint.host), pool.max_per_endpoint
            counter = _word(endpoint_counter(protocol, address.text, endpoint.port))
            yield Target(Atom(endpoint.field), address, Atom(protocol.value), endpoint.port, chain, limit, counter)


def _address(text: str) -> Atom:
    return Atom.of(_ADDRESS, str(ip_address(text)))
