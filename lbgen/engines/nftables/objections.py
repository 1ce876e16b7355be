"""Objections of nftables to values that its verdicts on features do not cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lbgen.engines.api import Objection, approximate, refused, version_key
from lbgen.engines.kernel import balance, forward_of, unreachable_endpoints
from lbgen.engines.nftables.upstreams import MAX_SLOTS, device, endpoints, is_direct, shares
from lbgen.plan.addresses import is_every_address
from lbgen.plan.model import Balance, Mode, Plan, Pool, Protocol, Route

_UNTRACKED = "direct forwarding does not track connections, so the kernel cannot count them"
_FRAGMENTS = approximate(
    "datagrams that do not fit into one packet are lost: the ingress hook sees fragments before the kernel puts them "
    "together, and only the first one has a port; without `device` they are forwarded"
)
_FULL = approximate(
    "the kernel selects before it can count: `lbgen agent` counts five times a second and leaves out endpoints that "
    "have their limit, and in between a connection to one of them is reset though another has room"
)


def objections(plan: Plan, version: str) -> Iterator[Objection]:
    """Mixed address families, loopback endpoints, weights beyond the limit of slots, two limits of one endpoint,
    backups and slow start without checks."""
    routes = {}
    for listener in plan.listeners:
        if listener.mode is not Mode.L4:
            continue  # refused by its feature
        for name in dict.fromkeys(rule.route for rule in listener.l4_rules):
            routes[name] = plan.route(name)
            yield from unreachable_endpoints(plan, routes[name], listener.address, "the kernel's NAT")
    yield from _direct(plan, version)
    yield from _limits(plan, routes.values())
    yield from _without_checks(plan, routes.values())
    for route in routes.values():
        if balance(plan, route) is None:
            yield Objection(refused("the pools of its targets must have the same `balance`"), route.field)
            continue
        total = sum(share.slots for share in shares(plan, route))
        if len(shares(plan, route)) > 1 and not is_direct(plan):
            for pool in _pools(plan, [route]):
                if pool.max_per_endpoint is not None:
                    yield Objection(
                        _FULL, f"{pool.field}.connections.max_per_endpoint", "pool.connections.max_per_endpoint"
                    )
        if total > MAX_SLOTS:
            why = f"these weights need {total} slots, and the limit is {MAX_SLOTS}"
            yield Objection(refused(why), route.field)


def _direct(plan: Plan, version: str) -> Iterator[Objection]:
    """Listeners of all addresses, endpoints of two listeners, IPv6 on nft 1.0, fragments by MAC addresses, and what
    needs connection tracking."""
    if not is_direct(plan):
        if plan.options("nftables").device is not None:
            why = "it is the interface of direct forwarding: add `forwarding: direct`, or drop it"
            yield Objection(refused(why), "engines.nftables.device")
        return
    owners: dict[tuple[str, int, Protocol], str] = {}
    for listener in plan.listeners:
        if is_every_address(listener.address):
            why = "endpoints answer from the listener's address, so direct forwarding needs a listener that names one"
            yield Objection(refused(why), listener.field)
        if ":" in listener.address and version_key(version) < (1, 1):
            # Its `update @map` overwrites the last four bytes of an IPv6 address in the key, or nft aborts.
            why = "nft 1.0 cannot keep IPv6 flows in a map, nft 1.1 can; use NAT for IPv6"
            yield Objection(refused(why), listener.field)
        if listener.protocol is Protocol.UDP and device(plan) is not None:
            yield Objection(_FRAGMENTS, listener.field, "listener.l4.udp")
        if listener.max_connections is not None:
            yield Objection(refused(_UNTRACKED), f"{listener.field}.max_connections", "listener.max_connections.l4")
        for end in (x for rule in listener.l4_rules for x in endpoints(plan, plan.route(rule.route))):
            key = end.host, end.port, listener.protocol
            if owners.setdefault(key, listener.name) != listener.name:
                why = f"it answers from the address of one listener, and listener {owners[key]} uses it as well"
                yield Objection(refused(why), end.field)
    for pool in _pools(plan, (plan.route(rule.route) for x in plan.listeners for rule in x.l4_rules)):
        if pool.balance is Balance.LEAST_CONNECTIONS:
            yield Objection(refused(_UNTRACKED), f"{pool.field}.balance", "pool.balance.least_connections")
        if pool.max_per_endpoint is not None:
            yield Objection(refused(_UNTRACKED), pool.field, "pool.connections.max_per_endpoint")


def _pools(plan: Plan, routes: Iterable[Route]) -> list[Pool]:
    """The pools of these routes, each once."""
    names = dict.fromkeys(target.pool for route in routes for target in forward_of(route).targets)
    return [plan.pool(name) for name in names]


def _limits(plan: Plan, routes: Iterable[Route]) -> Iterator[Objection]:
    """An endpoint has one counter of connections, whichever pool sends to it."""
    found: dict[str, int | None] = {}
    for pool in _pools(plan, routes):
        for endpoint in pool.endpoints:
            if found.setdefault(endpoint.authority, pool.max_per_endpoint) != pool.max_per_endpoint:
                why = "another pool gives this endpoint a different `max_per_endpoint`, and it counts by endpoint"
                yield Objection(refused(why), endpoint.field)


def _without_checks(plan: Plan, routes: Iterable[Route]) -> Iterator[Objection]:
    """Only active checks can tell that an endpoint is down."""
    for pool in _pools(plan, routes):
        if pool.active is not None:
            continue
        why = "the kernel does not notice an endpoint that is down; add health.active"
        for endpoint in pool.endpoints:
            if endpoint.backup:
                yield Objection(refused(why), f"{endpoint.field}.backup", "pool.backup")
        if pool.slow_start:
            yield Objection(refused(why), f"{pool.field}.slow_start", "pool.slow_start")
