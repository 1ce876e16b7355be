"""What single values of pools, and of the listeners that lead to them, ask of target groups that these cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.aws.matching import listener_rules
from lbgen.engines.aws.upstreams import INTERVAL, SLOW_START, STATUSES
from lbgen.plan.model import Balance, Forward, Listener, Mode, Plan, Pool, PoolProtocol, Target
from lbgen.plan.policy import ActiveHealth


def objections(plan: Plan) -> Iterator[Objection]:
    """Refusals and differences by place."""
    yield from _ports(plan)
    plain = [each for each in plan.listeners if not each.terminates_tls]
    pools = {target.pool: each.mode for each in plain for name in _routes(each) for target in _targets(plan, name)}
    for name, mode in pools.items():
        yield from _behind_plain(plan.pool(name), mode)
    for pool in plan.pools:
        yield from _addresses(pool)
        yield from _slow_start(pool)
        if pool.active is not None:
            yield from _checks(pool, pool.active)


def _ports(plan: Plan) -> Iterator[Objection]:
    """A Network Load Balancer has one listener for a port, whatever its protocol."""
    taken: dict[int, str] = {}
    for listener in plan.listeners:
        if listener.mode is Mode.L4 and taken.setdefault(listener.port, listener.name) != listener.name:
            why = refused(f"a Network Load Balancer has one listener for a port, here {taken[listener.port]}")
            yield Objection(why, f"{listener.field}.port")


def _routes(listener: Listener) -> Iterator[str]:
    yield from (rule.route for rule in listener_rules(listener))
    yield from (rule.route for rule in listener.l4_rules)


def _targets(plan: Plan, route: str) -> tuple[Target, ...]:
    action = plan.route(route).action
    return action.targets if isinstance(action, Forward) else ()


def _behind_plain(pool: Pool, mode: Mode) -> Iterator[Objection]:
    """A pool behind a listener without TLS."""
    if mode is Mode.L4 and pool.tls is not None:
        why = refused("a TCP listener leads to TCP targets alone; write `tls` on the listener too")
        yield Objection(why, f"{pool.field}.tls")
    if mode is Mode.L7 and pool.protocol is PoolProtocol.GRPC:
        yield Objection(refused("gRPC needs a listener with TLS"), f"{pool.field}.protocol")


def _addresses(pool: Pool) -> Iterator[Objection]:
    for endpoint in pool.endpoints:
        address = ip_address(endpoint.host) if endpoint.is_ip else None
        if address is not None and (address.is_loopback or address.is_link_local or address.is_multicast):
            why = refused(
                "a target group holds addresses of its VPC and private ones, and no loopback or link-local ones"
            )
            yield Objection(why, f"{endpoint.field}.address")
            return


def _slow_start(pool: Pool) -> Iterator[Objection]:
    if not pool.slow_start:
        return
    if pool.balance is not Balance.ROUND_ROBIN:
        yield Objection(refused("a slow start needs balance: round_robin"), f"{pool.field}.slow_start")
    low, high = SLOW_START
    if not low * 1000 <= pool.slow_start <= high * 1000:
        why = approximate(f"a slow start lasts {low} to {high} s")
        yield Objection(why, f"{pool.field}.slow_start", "pool.slow_start")


def _checks(pool: Pool, active: ActiveHealth) -> Iterator[Objection]:
    field, feature = f"{pool.field}.health.active", "pool.health.active"
    if active.timeout >= max(active.interval, INTERVAL[0] * 1000):
        why = approximate("a check lasts a second less than the interval at most")
        yield Objection(why, f"{field}.timeout", feature)
    if active.path is not None and any(first < STATUSES[0] or last > STATUSES[1] for first, last in active.statuses):
        yield Objection(
            refused(f"a health check expects statuses of {STATUSES[0]} to {STATUSES[1]}"), f"{field}.expect"
        )
