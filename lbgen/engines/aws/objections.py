"""What single values of a plan ask of Amazon's load balancers that these cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.aws import matching, pool_objections
from lbgen.engines.aws.actions import literal, media_type, rules_of
from lbgen.engines.aws.upstreams import INTERVAL, THRESHOLD, TIMEOUT
from lbgen.plan.model import Forward, Mode, Redirect, Respond

if TYPE_CHECKING:
    from lbgen.plan.model import Listener, Plan, Pool, Route

_MEDIA = ("application/javascript", "application/json", "text/css", "text/html", "text/plain")
_LONGEST_BODY = 1024
_MOST_TARGETS = 5  # target groups of one action
_HEAVIEST = 999


def objections(plan: Plan) -> Iterator[Objection]:
    """Refusals by place."""
    yield from pool_objections.objections(plan)
    for listener in plan.listeners:
        yield from _listener(plan, listener)
    for route in plan.routes:
        yield from _route(plan, route)
    for pool in plan.pools:
        yield from _pool(pool)


def _listener(plan: Plan, listener: Listener) -> Iterator[Objection]:
    if listener.access is not None and listener.access.deny:
        yield Objection(refused("a security group only allows; write `allow`"), f"{listener.field}.access.deny")
    if listener.mode is Mode.L4:
        if len(listener.l4_rules) > 1:
            why = refused("a Network Load Balancer has one action for a listener")
            yield Objection(why, plan.route(listener.l4_rules[1].route).field)
        return
    if listener.http2 and not listener.terminates_tls:
        yield Objection(refused("clients speak HTTP/2 with TLS alone"), f"{listener.field}.http2")
    if listener.tls is not None and listener.tls.client_ca is not None and not listener.tls.client_required:
        why = refused("a trust store refuses clients without a certificate; write verify: required")
        yield Objection(why, f"{listener.field}.tls.client.verify")
    count = 1  # the one for ambiguous paths
    for rule, hosts in matching.by_hosts(matching.listener_rules(listener)):
        path = rule.match.path
        if path.is_text and not matching.PATH_CHARACTERS.fullmatch(path.value):
            why = refused("a path condition holds letters, digits and _-.$/~\"'@:+& alone")
            yield Objection(why, f"{rule.field}.path")
        try:
            count += len(list(rules_of(plan, rule, hosts, str)))
        except ValueError as error:
            yield Objection(refused(str(error)), rule.field)
    if count > matching.MOST_RULES:
        note = f"it needs {count} rules, and a load balancer has {matching.MOST_RULES} until the quota is raised"
        yield Objection(approximate(note), listener.field, "listener.l7")


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
    active = pool.active
    if active is None:
        return
    for key, value, (low, high) in (
        ("interval", active.interval // 1000, INTERVAL),
        ("timeout", active.timeout // 1000, TIMEOUT),
        ("rise", active.rise, THRESHOLD),
        ("fall", active.fall, THRESHOLD),
    ):
        if not low <= value <= high:
            near = min(high, max(low, value))
            why = approximate(f"{key} of a health check is {low} to {high}; it becomes {near}")
            yield Objection(why, f"{pool.field}.health.active.{key}", "pool.health.active")
    if active.path is None:
        why = approximate("an Application Load Balancer checks by requests for /, where any answer below 500 is good")
        yield Objection(why, f"{pool.field}.health.active", "pool.health.active")
