"""An L4 route's weights -> numbered slots and the endpoint behind each, the form in which nftables picks one."""

from __future__ import annotations

from math import gcd, lcm
from typing import TYPE_CHECKING

from lbgen.plan.model import Balance, Forward
from lbgen.records import record

if TYPE_CHECKING:
    from lbgen.plan.model import Endpoint, Plan, Route

MOST_SLOTS = 65_536  # a map of that size loads in about a second; beyond it weights are refused, never rounded


@record
class Share:
    """An endpoint and how many slots of a cycle are its own."""

    endpoint: Endpoint
    slots: int


@record
class Span:
    """Slots `first` to `last` lead to `endpoint`."""

    first: int
    last: int
    endpoint: Endpoint


def forward_of(route: Route) -> Forward:
    """The forward of an L4 route, which has nothing else."""
    if not isinstance(route.action, Forward):
        raise TypeError(f"L4 route {route.name} does not forward")
    return route.action


def balance(plan: Plan, route: Route) -> Balance | None:
    """How the route's pools are balanced; None when its targets disagree."""
    found = {plan.pool(t.pool).balance for t in forward_of(route).targets if t.weight}
    return found.pop() if len(found) == 1 else None


def shares(plan: Plan, route: Route) -> tuple[Share, ...]:
    """All endpoints of all targets with their exact shares in the smallest whole numbers; weight 0 has none."""
    pools = []
    for target in forward_of(route).targets:
        endpoints = [x for x in plan.pool(target.pool).endpoints if x.weight]
        if target.weight and endpoints:
            pools.append((target.weight, endpoints, sum(x.weight for x in endpoints)))
    scale = lcm(*(total for _, _, total in pools))
    weighted = [(x, weight * x.weight * (scale // total)) for weight, endpoints, total in pools for x in endpoints]
    common = gcd(*(slots for _, slots in weighted))
    return tuple(Share(endpoint, slots // common) for endpoint, slots in weighted)


def spans(found: tuple[Share, ...], *, interleaved: bool) -> tuple[Span, ...]:
    """The slots of one cycle. `interleaved` spreads each endpoint's evenly, for a counter that walks through them: with
    whole ranges it would send bursts to one endpoint. A hash or a random number wants ranges, which are fewer."""
    if not interleaved:
        ranges, at = [], 0
        for share in found:
            ranges.append(Span(at, at + share.slots - 1, share.endpoint))
            at += share.slots
        return tuple(ranges)
    order = sorted(
        ((2 * k + 1) / (2 * share.slots), index) for index, share in enumerate(found) for k in range(share.slots)
    )
    merged: list[Span] = []
    for slot, (_, index) in enumerate(order):
        endpoint = found[index].endpoint
        if merged and merged[-1].endpoint == endpoint:
            merged[-1] = Span(merged[-1].first, slot, endpoint)
        else:
            merged.append(Span(slot, slot, endpoint))
    return tuple(merged)
