"""The endpoints of a route as the real servers of one service."""

from __future__ import annotations

from math import gcd, lcm
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.plan.model import Balance, Endpoint, Forward, Plan, Pool, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_WEIGHT = 65_535  # keepalived's
_SCHEDULERS = {
    Balance.ROUND_ROBIN: ("rr", "wrr"),
    Balance.LEAST_CONNECTIONS: ("lc", "wlc"),
    # Maglev: when an endpoint is out, only its own clients move (`sh` deals all its buckets anew).
    Balance.SOURCE_HASH: ("mh", "mh"),
}


class Member(Struct, frozen=True, eq=False):
    """An endpoint with its weight in the service."""

    pool: Pool
    endpoint: Endpoint
    weight: int


def forward_of(route: Route) -> Forward:
    """The action of an L4 route."""
    if not isinstance(route.action, Forward):
        raise TypeError(f"L4 route {route.name} does not forward")
    return route.action


def pools(plan: Plan, route: Route) -> tuple[Pool, ...]:
    """The pools of the route's targets, those of weight 0 too."""
    return tuple(plan.pool(target.pool) for target in forward_of(route).targets)


def backups(plan: Plan, route: Route) -> tuple[Endpoint, ...]:
    """The backups of a route."""
    return tuple(x for pool in pools(plan, route) for x in pool.endpoints if x.backup)


def balance(plan: Plan, route: Route) -> Balance | None:
    """The balance of the route's pools; None when they differ."""
    found = {plan.pool(t.pool).balance for t in forward_of(route).targets if t.weight}
    return found.pop() if len(found) == 1 else None


def scheduler(plan: Plan, route: Route) -> str:
    """IPVS's word for the balance of the route; KeyError when it has none."""
    method = balance(plan, route)
    plain, weighted = _SCHEDULERS[method] if method is not None else ("", "")
    return weighted if len({x.weight for x in members(plan, route) if x.weight}) > 1 else plain


def members(plan: Plan, route: Route) -> tuple[Member, ...]:
    """The endpoints of all targets but for backups, with combined weights in the smallest numbers; 0 = drained."""
    raw = tuple(_members(plan, route))
    common = gcd(*(x.weight for x in raw)) or 1
    return tuple(Member(x.pool, x.endpoint, x.weight // common) for x in raw)


def _members(plan: Plan, route: Route) -> Iterator[Member]:
    shares = []
    for target in forward_of(route).targets:
        pool = plan.pool(target.pool)
        mine = [x for x in pool.endpoints if not x.backup]
        shares.append((target.weight, pool, mine, sum(x.weight for x in mine)))
    scale = lcm(*(total or 1 for _, _, _, total in shares))
    for weight, pool, mine, total in shares:
        for x in mine:
            yield Member(pool, x, weight * x.weight * (scale // (total or 1)))
