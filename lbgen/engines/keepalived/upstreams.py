"""The endpoints of a route as the real servers of one service, and what listeners, tables and hosts are called.

With `forwarding: direct` the balancer sends each packet on unchanged, in a frame for the endpoint, which has the
listener's address too and answers the client itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from math import gcd, lcm

from msgspec import Struct

from lbgen.engines.kernel import balance, forward_of
from lbgen.plan.model import Balance, Endpoint, Listener, Plan, Pool, Route

VRRP = "vrrp"  # the place for text of the topology
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


def table_name(plan: Plan) -> str:
    """The name of the tables that mark and masquerade, and of those of endpoints."""
    return f"lb_{plan.name}_ipvs"


def is_direct(plan: Plan) -> bool:
    """Whether the topology asks for direct forwarding."""
    return plan.options("keepalived").forwarding == "direct"


def pools(plan: Plan, route: Route) -> tuple[Pool, ...]:
    """The pools of the route's targets, those of weight 0 too."""
    return tuple(plan.pool(target.pool) for target in forward_of(route).targets)


def pairs(plan: Plan) -> Iterator[tuple[Listener, Endpoint]]:
    """Each listener with each of its endpoints."""
    for listener in plan.listeners:
        for rule in listener.l4_rules:
            for pool in pools(plan, plan.route(rule.route)):
                yield from ((listener, endpoint) for endpoint in pool.endpoints)


def addresses(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The listeners' addresses that each host of endpoints has, by the host's own address, sorted."""
    found: dict[str, set[str]] = {}
    for listener, endpoint in pairs(plan):
        found.setdefault(str(ip_address(endpoint.host)), set()).add(str(ip_address(listener.address)))
    return {host: tuple(sorted(found[host])) for host in sorted(found)}


def backups(plan: Plan, route: Route) -> tuple[Endpoint, ...]:
    """The backups of a route."""
    return tuple(x for pool in pools(plan, route) for x in pool.endpoints if x.backup)


def scheduler(plan: Plan, route: Route) -> str:
    """IPVS's word for the balance of the route; KeyError when it has none."""
    method = balance(plan, route)
    plain, weighted = _SCHEDULERS[method] if method is not None else ("", "")
    return weighted if len({x.weight for x in members(plan, route) if x.weight}) > 1 else plain


def members(plan: Plan, route: Route) -> tuple[Member, ...]:
    """The endpoints of all targets but for backups, with combined weights in the smallest numbers; 0 = drained."""
    shares = []
    for target in forward_of(route).targets:
        pool = plan.pool(target.pool)
        mine = [x for x in pool.endpoints if not x.backup]
        shares.append((target.weight, pool, mine, sum(x.weight for x in mine) or 1))
    scale = lcm(*(total for _, _, _, total in shares))
    raw = [(pool, x, weight * x.weight * (scale // total)) for weight, pool, mine, total in shares for x in mine]
    common = gcd(*(weight for _, _, weight in raw)) or 1
    return tuple(Member(pool, x, weight // common) for pool, x, weight in raw)
