"""Objections of keepalived to values that its verdicts on features do not cover."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.keepalived.build import can_hold
from lbgen.engines.keepalived.upstreams import MAX_WEIGHT, backups, is_direct, members, pairs, pools
from lbgen.engines.kernel import balance, forward_of, unreachable_endpoints
from lbgen.plan.addresses import is_every_address
from lbgen.plan.model import Listener, Mode, Plan, Pool, Protocol, Route

_ONE_SUCCESS = approximate(
    "keepalived brings an endpoint back after one connection that succeeds; with `path`, `rise` is honoured"
)
_UNCHECKED = approximate("keepalived does not check its sorry server: connections go there while it is down, too")
_CLOSED = approximate("the kernel counts a closed connection for up to two minutes more")


def objections(plan: Plan) -> Iterator[Objection]:
    """Addresses that IPVS cannot reach, idle times that differ, and what only one endpoint or pool can have."""
    found: dict[str, tuple[Listener, Route]] = {}
    for listener in plan.listeners:
        if listener.mode is not Mode.L4:
            continue  # refused by its feature
        for rule in listener.l4_rules:
            route = plan.route(rule.route)
            yield from unreachable_endpoints(plan, route, listener.address, "IPVS")
            found.setdefault(route.name, (listener, route))
    routes = [route for _, route in found.values()]
    yield from _direct(plan)
    yield from _idle(plan)
    for route in routes:
        yield from _balances(plan, route)
        yield from _backups(plan, route)
    for pool in {pool.name: pool for route in routes for pool in pools(plan, route)}.values():
        yield from _checks(pool)
        if pool.max_per_endpoint is not None:
            yield Objection(_CLOSED, f"{pool.field}.connections.max_per_endpoint", "pool.connections.max_per_endpoint")


def _direct(plan: Plan) -> Iterator[Objection]:
    """An interface, listeners of all addresses, and endpoints on another port than the listener's."""
    if plan.options("keepalived").device is not None:
        why = "IPVS sends packets out by the routes to the endpoints, not by a given interface: drop it"
        yield Objection(refused(why), "engines.keepalived.device")
    if not is_direct(plan):
        return
    for listener in plan.listeners:
        if is_every_address(listener.address):
            why = "endpoints answer from the listener's address, so direct forwarding needs a listener that names one"
            yield Objection(refused(why), listener.field)
    for listener, endpoint in pairs(plan):
        if endpoint.port != listener.port:
            why = f"direct routing leaves a packet as it is, so the endpoint needs the listener's port {listener.port}"
            yield Objection(refused(why), endpoint.field)


def _idle(plan: Plan) -> Iterator[Objection]:
    """IPVS has one idle time for all TCP connections of a host, and one for all UDP flows."""
    first: dict[Protocol, int] = {}
    for listener in plan.listeners:
        for rule in listener.l4_rules:
            route = plan.route(rule.route)
            idle = forward_of(route).timeouts.idle
            if first.setdefault(listener.protocol, idle) != idle:
                why = f"IPVS has one idle time for all {listener.protocol.value.upper()} services of a host"
                yield Objection(refused(why), f"{route.field}.timeouts.idle", "timeouts.idle")


def _balances(plan: Plan, route: Route) -> Iterator[Objection]:
    if balance(plan, route) is None:
        yield Objection(refused("the pools of its targets must have the same `balance`"), route.field)
        return
    most = max((x.weight for x in members(plan, route)), default=0)
    if most > MAX_WEIGHT:
        yield Objection(refused(f"these weights need one of {most}, and the limit is {MAX_WEIGHT}"), route.field)
    if len(forward_of(route).targets) > 1 and any(pool.active is not None for pool in pools(plan, route)):
        why = "when all endpoints of a target are down, the endpoints of the other targets get its share"
        yield Objection(approximate(why), f"{route.field}.forward", "route.forward.split")
    ends = [(x.endpoint.host, x.endpoint.port) for x in members(plan, route)]
    if len(set(ends)) < len(ends):
        yield Objection(refused("IPVS knows an endpoint once, and two targets of this route have it"), route.field)


def _backups(plan: Plan, route: Route) -> Iterator[Objection]:
    every = backups(plan, route)
    if not every:
        return
    yield Objection(_UNCHECKED, f"{every[0].field}.backup", "pool.backup")
    for endpoint in every[1:]:
        yield Objection(refused("keepalived has one sorry server"), f"{endpoint.field}.backup", "pool.backup")
    if len(forward_of(route).targets) > 1:
        why = "the sorry server is one for all targets of a route"
        yield Objection(refused(why), f"{every[0].field}.backup", "pool.backup")
    if not all(pool.active is not None for pool in pools(plan, route)):
        why = "the kernel does not notice an endpoint that is down; add health.active"
        yield Objection(refused(why), f"{every[0].field}.backup", "pool.backup")


def _checks(pool: Pool) -> Iterator[Objection]:
    active = pool.active
    if active is None:
        return
    field = f"{pool.field}.health.active"
    if active.path is not None and not can_hold(active.path):
        why = "keepalived.conf cannot hold this path: its parser gives a meaning to one of its characters"
        yield Objection(refused(why), f"{field}.path")
    if active.path is None and active.rise > 1:
        yield Objection(_ONE_SUCCESS, f"{field}.rise", "pool.health.active")
