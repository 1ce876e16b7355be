"""What single values of a plan ask of Amazon's load balancers that these cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.aws import matching
from lbgen.engines.aws.actions import literal, media_type, rules_of
from lbgen.engines.aws.upstreams import INTERVAL, SLOW_START, STATUSES, THRESHOLD, TIMEOUT
from lbgen.plan.model import Balance, Forward, Mode, Redirect, Respond

if TYPE_CHECKING:
    from lbgen.plan.model import Listener, Plan, Pool, Route
    from lbgen.plan.policy import ActiveHealth

_MEDIA = ("application/javascript", "application/json", "text/css", "text/html", "text/plain")
_LONGEST_BODY = 1024
_MOST_TARGETS = 5  # target groups of one action
_HEAVIEST = 999


def objections(plan: Plan) -> Iterator[Objection]:
    """Refusals by place."""
    for listener in plan.listeners:
        yield from _listener(plan, listener)
    for route in plan.routes:
        yield from _route(plan, route)
    for pool in plan.pools:
        yield from _pool(pool)
        if pool.active is not None:
            yield from _checks(pool, pool.active)


def _listener(plan: Plan, listener: Listener) -> Iterator[Objection]:
    if listener.access is not None and listener.access.deny:
        yield Objection(refused("a security group only allows; write `allow`"), f"{listener.field}.access.deny")
    if listener.mode is Mode.L4:
        if len(listener.l4_rules) > 1:
            why = refused("a Network Load Balancer has one action for a listener")
            yield Objection(why, plan.route(listener.l4_rules[1].route).field)
        yield from _raw(plan, listener)
        return
    if listener.http2 and not listener.terminates_tls:
        yield Objection(refused("clients speak HTTP/2 with TLS alone"), f"{listener.field}.http2")
    if listener.tls is not None and listener.tls.client_ca is not None and not listener.tls.client_required:
        why = refused("a trust store refuses clients without a certificate; write verify: required")
        yield Objection(why, f"{listener.field}.tls.client.verify")
    count = 1  # the one for ambiguous paths
    for rule in matching.listener_rules(listener):
        path = rule.match.path
        if path.is_text and not matching.PATH_CHARACTERS.fullmatch(path.value):
            why = refused("a path condition holds letters, digits and _-.$/~\"'@:+& alone")
            yield Objection(why, f"{rule.field}.path")
        try:
            count += len(list(rules_of(plan, rule, str)))
        except ValueError as error:
            yield Objection(refused(str(error)), rule.field)
    if count > matching.MOST_RULES:
        note = f"it needs {count} rules, and a load balancer has {matching.MOST_RULES} until the quota is raised"
        yield Objection(approximate(note), listener.field, "listener.l7")


def _raw(plan: Plan, listener: Listener) -> Iterator[Objection]:
    if listener.tls is not None and listener.tls.client_ca is not None:
        why = refused("a Network Load Balancer does not ask clients for certificates")
        yield Objection(why, f"{listener.field}.tls.client")
    for rule in listener.l4_rules if not listener.terminates_tls else ():
        action = plan.route(rule.route).action
        for target in action.targets if isinstance(action, Forward) else ():
            if plan.pool(target.pool).tls is not None:
                why = refused("a TCP listener leads to TCP targets; write `tls` on the listener too")
                yield Objection(why, f"{plan.pool(target.pool).field}.tls")


def _route(plan: Plan, route: Route) -> Iterator[Objection]:
    action = route.action
    if isinstance(action, Redirect):
        if action.status not in (301, 302):
            yield Objection(refused("a redirect is 301 or 302"), f"{route.field}.redirect.status")
        if action.prefix is not None:
            yield Objection(refused("a redirect keeps or replaces the whole path"), f"{route.field}.redirect.prefix")
    if isinstance(action, Respond):
        yield from _respond(route, action)
    if isinstance(action, Forward):
        if len(action.targets) > _MOST_TARGETS:
            why = refused(f"an action has {_MOST_TARGETS} target groups at most")
            yield Objection(why, f"{route.field}.forward")
        for target in action.targets:
            if target.weight > _HEAVIEST:
                yield Objection(refused(f"a weight is {_HEAVIEST} at most"), f"{target.field}.weight")
    if route.access is not None and _asks_source(plan, route):
        why = refused("a rule has one condition on the client's address; write `access` or `match.sources`")
        yield Objection(why, f"{route.field}.access")


def _asks_source(plan: Plan, route: Route) -> bool:
    every = (rule for listener in plan.listeners for rule in matching.listener_rules(listener))
    return any(rule.route == route.name and rule.match.asks_client for rule in every)


def _respond(route: Route, action: Respond) -> Iterator[Objection]:
    place = f"{route.field}.respond"
    if not (200 <= action.status < 300 or 400 <= action.status < 600):
        yield Objection(refused("a fixed response has a status of 2xx, 4xx or 5xx"), f"{place}.status")
    if len(literal(action.body).encode()) > _LONGEST_BODY:
        yield Objection(refused(f"a fixed response has {_LONGEST_BODY} bytes at most"), f"{place}.body")
    if media_type(action) not in _MEDIA:
        yield Objection(refused(f"a fixed response is one of {', '.join(_MEDIA)}"), f"{place}.headers")
    if others := sorted({name for name, _ in action.headers} - {"content-type"}):
        yield Objection(refused(f"a fixed response has no {others[0]}"), f"{place}.headers")


def _pool(pool: Pool) -> Iterator[Objection]:
    families = {":" in each.host for each in pool.endpoints}
    if len(families) > 1:
        yield Objection(refused("a target group holds addresses of one family"), pool.field)
    if pool.proxy_protocol == "v1":
        yield Objection(refused("a target group sends version 2 of the PROXY protocol"), f"{pool.field}.proxy_protocol")
    if pool.slow_start and pool.balance is not Balance.ROUND_ROBIN:
        yield Objection(refused("a slow start needs balance: round_robin"), f"{pool.field}.slow_start")
    if pool.slow_start:
        yield from _bounded(pool, "slow_start", "pool.slow_start", pool.slow_start // 1000, SLOW_START)
    beyond = next((x for x in pool.endpoints if x.is_ip and not _is_reachable(ip_address(x.host))), None)
    if beyond is not None:
        why = refused("a target group holds addresses of its VPC and private ones, and no loopback or link-local ones")
        yield Objection(why, f"{beyond.field}.address")


def _is_reachable(address: IPv4Address | IPv6Address) -> bool:
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def _checks(pool: Pool, active: ActiveHealth) -> Iterator[Objection]:
    feature, place = "pool.health.active", "health.active"
    interval, timeout = active.interval // 1000, active.timeout // 1000
    yield from _bounded(pool, f"{place}.interval", feature, interval, INTERVAL)
    yield from _bounded(pool, f"{place}.timeout", feature, timeout, TIMEOUT)
    yield from _bounded(pool, f"{place}.rise", feature, active.rise, THRESHOLD)
    yield from _bounded(pool, f"{place}.fall", feature, active.fall, THRESHOLD)
    if timeout >= max(interval, INTERVAL[0]):
        why = approximate("the time of a check is a second below the interval at most")
        yield Objection(why, f"{pool.field}.{place}.timeout", feature)
    if active.path is None:
        why = approximate("an Application Load Balancer checks by requests for /, where any answer below 500 is good")
        yield Objection(why, f"{pool.field}.{place}", feature)
    elif not all(STATUSES[0] <= first and last <= STATUSES[1] for first, last in active.statuses):
        why = refused(f"a health check expects statuses of {STATUSES[0]} to {STATUSES[1]}")
        yield Objection(why, f"{pool.field}.{place}.expect")


def _bounded(pool: Pool, key: str, feature: str, value: int, bounds: tuple[int, int]) -> Iterator[Objection]:
    """Values that the API does not take, in whole units of it."""
    low, high = bounds
    if not low <= value <= high:
        near = min(high, max(low, value))
        why = approximate(f"{key.rpartition('.')[2]} is {low} to {high}; it becomes {near}")
        yield Objection(why, f"{pool.field}.{key}", feature)
