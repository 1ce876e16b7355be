"""Weights of an L4 route as numbered slots, from which nftables selects the endpoint."""

from __future__ import annotations

from math import gcd, lcm

from lbgen.plan.model import Balance, Endpoint, Forward, Plan, Route
from lbgen.records import record

MAX_SLOTS = 65_536  # such a map loads in about a second; larger weights are refused, never rounded


@record
class Share:
    """An endpoint and its number of slots."""

    endpoint: Endpoint
    slots: int


@record
class Span:
    """Slots `first` to `last` belong to `endpoint`."""

    first: int
    last: int
    endpoint: Endpoint


def forward_of(route: Route) -> Forward:
    """The action of an L4 route."""
    if not isinstance(route.action, Forward):
        raise TypeError(f"L4 route {route.name} does not forward")
    return route.action


def balance(plan: Plan, route: Route) -> Balance | None:
    """The balance of the route's pools; None when they differ."""
    balances = {plan.pool(t.pool).balance for t in forward_of(route).targets if t.weight}
    return balances.pop() if len(balances) == 1 else None


def shares(plan: Plan, route: Route) -> tuple[Share, ...]:
    """The endpoints of all targets with their shares in the smallest whole numbers, without those of weight 0."""
    pools = []
    for target in forward_of(route).targets:
        endpoints = [x for x in plan.pool(target.pool).endpoints if x.weight]
        if target.weight and endpoints:
            pools.append((target.weight, endpoints, sum(x.weight for x in endpoints)))
    scale = lcm(*(total for _, _, total in pools))
    weighted = [(x, weight * x.weight * (scale // total)) for weight, endpoints, total in pools for x in endpoints]
    common = gcd(*(slots for _, slots in weighted))
    return tuple(Share(endpoint, slots // common) for endpoint, slots in weighted)


def spans(every: tuple[Share, ...], *, interleaved: bool) -> tuple[Span, ...]:
    """The slots by endpoint. `interleaved` spreads them evenly for a counter, which would otherwise send bursts to one
    endpoint; a hash or a random number needs one range per endpoint only."""
    if not interleaved:
        ranges, at = [], 0
        for share in every:
            ranges.append(Span(at, at + share.slots - 1, share.endpoint))
            at += share.slots
        return tuple(ranges)
    order = sorted(
        ((2 * k + 1) / (2 * share.slots), index) for index, share in enumerate(every) for k in range(share.slots)
    )
    merged: list[Span] = []
    for slot, (_, index) in enumerate(order):
        endpoint = every[index].endpoint
        if merged and merged[-1].endpoint == endpoint:
            merged[-1] = Span(merged[-1].first, slot, endpoint)
        else:
            merged.append(Span(slot, slot, endpoint))
    return tuple(merged)
