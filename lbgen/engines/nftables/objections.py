"""Objections of nftables to values that its verdicts on features do not cover."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from lbgen.engines.api import Objection, refused
from lbgen.engines.nftables.names import family
from lbgen.engines.nftables.upstreams import MAX_SLOTS, balance, forward_of, shares
from lbgen.plan.model import Mode, Plan, Protocol, Route


def objections(plan: Plan) -> Iterator[Objection]:
    """Mixed address families, loopback endpoints, several rules per listener, weights beyond the limit of slots."""
    for listener in plan.listeners:
        if listener.mode is not Mode.L4 or listener.protocol is not Protocol.TCP:
            continue  # refused by its feature
        if len(listener.l4_rules) != 1:
            yield Objection(refused("it cannot select among several routes of a listener"), listener.field)
            continue
        route = plan.route(listener.l4_rules[0].route)
        yield from _families(plan, route, listener.address)
    for route in {x.l4_rules[0].route: plan.route(x.l4_rules[0].route) for x in plan.listeners if x.l4_rules}.values():
        if balance(plan, route) is None:
            yield Objection(refused("the pools of its targets must have the same `balance`"), route.field)
            continue
        total = sum(share.slots for share in shares(plan, route))
        if total > MAX_SLOTS:
            why = f"these weights need {total} slots, and the limit is {MAX_SLOTS}"
            yield Objection(refused(why), route.field)


def _families(plan: Plan, route: Route, address: str) -> Iterator[Objection]:
    for target in forward_of(route).targets:
        for endpoint in plan.pool(target.pool).endpoints:
            if not endpoint.is_ip:
                continue  # refused by its feature
            if family(endpoint.host) != family(address):
                why = f"the kernel's NAT cannot forward connections from {address} to {endpoint.host}"
                yield Objection(refused(why), endpoint.field)
            elif ip_address(endpoint.host).is_loopback:
                why = "the kernel does not forward to a loopback address; use an address of another interface"
                yield Objection(refused(why), endpoint.field)
