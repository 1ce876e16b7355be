"""What single values of a plan ask of Amazon's load balancers that these cannot do."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.aws import matching, pool_objections
from lbgen.engines.aws.actions import literal, media_type, rules_of
from lbgen.engines.aws.listeners import web_rules
from lbgen.engines.aws.upstreams import INTERVAL, THRESHOLD, TIMEOUT
from lbgen.plan.addresses import is_every_address
from lbgen.plan.model import Balance, Forward, Listener, Mode, Plan, Pool, Redirect, Respond, Route

_MEDIA = ("application/javascript", "application/json", "text/css", "text/html", "text/plain")
_LONGEST_BODY = 1024
_MOST_TARGETS = 5  # target groups of one action
_HEAVIEST = 999


def objections(plan: Plan) -> Iterator[Objection]:
    """Refusals by place."""
    arns = dict(plan.options("aws").certificate_arns)
    yield from pool_objections.objections(plan)
    for listener in plan.listeners:
        yield from _listener(plan, listener)
        if listener.name in arns and not listener.terminates_tls:
            why = refused("no TLS ends at this listener, which has no certificates")
            yield Objection(why, f"engines.aws.certificate_arns.{listener.field.removeprefix('listeners.')}")
    yield from _http2(plan)
    yield from _quota(plan)
    every = (rule for listener in plan.listeners for rule in matching.listener_rules(listener))
    asking = {rule.route for rule in every if rule.match.asks_client}
    l4 = {rule.route for listener in plan.listeners for rule in listener.l4_rules}
    for route in plan.routes:
        yield from _route(route, asks_client=route.name in asking, l4=route.name in l4)
    actions = [(route.action, route.name in l4) for route in plan.routes]
    of_l4 = {target.pool for action, raw in actions if raw and isinstance(action, Forward) for target in action.targets}
    for pool in plan.pools:
        yield from _pool(pool, l4=pool.name in of_l4)


def _http2(plan: Plan) -> Iterator[Objection]:
    """Refusals of HTTP/2 on some listeners alone."""
    ends_tls = [each for each in plan.listeners if each.mode is Mode.L7 and each.terminates_tls]
    if len({each.http2 for each in ends_tls}) > 1:
        why = refused("HTTP/2 is on or off for the whole load balancer; write the same on all listeners with TLS")
        yield from (Objection(why, f"{each.field}.http2") for each in ends_tls if not each.http2)


def _listener(plan: Plan, listener: Listener) -> Iterator[Objection]:
    if listener.address_written and not is_every_address(listener.address):
        why = refused("a load balancer gets its addresses from its subnets; leave it out, or name clients in `access`")
        yield Objection(why, f"{listener.field}.address")
    if listener.access is not None and listener.access.deny:
        yield Objection(refused("a security group only allows; write `allow`"), f"{listener.field}.access.deny")
    if listener.mode is Mode.L4:
        if len(listener.l4_rules) > 1:
            why = refused("a Network Load Balancer has one action for a listener")
            yield Objection(why, plan.route(listener.l4_rules[1].route).field)
        if listener.tls is not None and listener.tls.client_ca is not None:
            why = refused("a Network Load Balancer asks clients for no certificate")
            yield Objection(why, f"{listener.field}.tls.client")
        return
    if listener.http2 and not listener.terminates_tls:
        yield Objection(refused("clients speak HTTP/2 with TLS alone"), f"{listener.field}.http2")
    if listener.tls is not None and listener.tls.client_ca is not None and not listener.tls.client_required:
        why = refused("a trust store refuses clients without a certificate; write verify: required")
        yield Objection(why, f"{listener.field}.tls.client.verify")
    for rule, hosts in matching.by_hosts(matching.listener_rules(listener)):
        path = rule.match.path
        if path.is_text and not matching.PATH_CHARACTERS.fullmatch(path.value):
            why = refused("a path condition holds letters, digits and _-.$/~\"'@:+& alone")
            yield Objection(why, f"{rule.field}.path")
        try:
            list(rules_of(plan, rule, hosts, str))
        except ValueError as error:
            yield Objection(refused(str(error)), rule.field)


def _quota(plan: Plan) -> Iterator[Objection]:
    """More rules than a load balancer has, all listeners together."""
    web = [each for each in plan.listeners if each.mode is Mode.L7]
    try:
        count = sum(len(web_rules(plan, each, str)[0]) for each in web)
    except ValueError:
        return  # a rule is refused
    if count > matching.MOST_RULES:
        note = f"it needs {count} rules, and a load balancer has {matching.MOST_RULES} until the quota is raised"
        yield Objection(approximate(note), web[0].field, "listener.l7")


def _route(route: Route, *, asks_client: bool, l4: bool) -> Iterator[Objection]:
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
    if route.access is not None and l4:
        why = refused("a Network Load Balancer has no rules; write `access` on the listener, for its security group")
        yield Objection(why, f"{route.field}.access")
    if route.access is not None and asks_client:
        why = refused("a rule has one condition on the client's address; write `access` or `match.sources`")
        yield Objection(why, f"{route.field}.access")


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


def _pool(pool: Pool, *, l4: bool) -> Iterator[Objection]:
    families = {":" in each.host for each in pool.endpoints}
    if len(families) > 1:
        yield Objection(refused("a target group holds addresses of one family"), pool.field)
    if l4 and pool.balance is Balance.ROUND_ROBIN:
        why = approximate("a Network Load Balancer chooses by a hash of addresses and ports, for each connection")
        yield Objection(why, f"{pool.field}.balance", "pool.balance.round_robin")
    elif l4:
        why = refused("a Network Load Balancer chooses by a hash of addresses and ports; write round_robin")
        yield Objection(why, f"{pool.field}.balance")
    if l4 and pool.slow_start:
        why = refused("a Network Load Balancer gives a target that is back its whole share at once")
        yield Objection(why, f"{pool.field}.slow_start")
    if pool.tls is not None and pool.tls.certificate is not None:
        yield Objection(refused("it shows targets no certificate"), f"{pool.field}.tls.certificate")
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
    if active.path is None and not l4:
        why = approximate("an Application Load Balancer checks by requests for /, where any answer below 500 is good")
        yield Objection(why, f"{pool.field}.health.active", "pool.health.active")
