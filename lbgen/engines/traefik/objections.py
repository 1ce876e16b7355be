"""Verdicts on single places of a plan that Traefik refuses, or serves in its own way: of features, and the rest."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, approximate, habit, refused
from lbgen.engines.conditions import refusal
from lbgen.engines.traefik.features import FEATURES as CONTRIBUTORS
from lbgen.engines.traefik.matching import CONDITIONS
from lbgen.engines.traefik.routers import count_routers
from lbgen.engines.traefik.view import http_listeners, http_pools, http_routes
from lbgen.plan.conditions import FEATURES, Exact, Header
from lbgen.plan.model import Forward, Plan, Pool, PoolProtocol, Route, Rule

_PER_ROUTER = (
    "each router of the route has its own count: there is one for each match, and for listeners with other routes, "
    "access or certificates"
)
_SEPARATE_COUNTS = {
    "route.rate_limit": approximate(_PER_ROUTER, {"route.rate_limit.routes": "rate"}),
    "route.concurrency": approximate(_PER_ROUTER, {"route.concurrency.routes": "places"}),
}
_PERCENT = approximate("Traefik mirrors whole percents")
_SET_BEFORE = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-real-ip")
_AS_SET = habit(
    "where a trusted proxy sends no such field, rules see it as Traefik sets it",
    {"match.headers.routes": ("accepted", "status 404")},
)
_LIST = habit("a value with a comma is not matched over two lines of the header")
_RESOLVERS = habit("Traefik resolves names by the system's resolver")
_TUNNEL = habit("handshakes of WebSocket go to endpoints of HTTP/2 over HTTP/1.1; one that lacks it answers none")


def find_objections(plan: Plan, version: str) -> Iterator[Objection]:
    """All of them, feature by feature; then those on rules, routers and pools as such."""
    for each in CONTRIBUTORS:
        if each.objections:
            yield from each.objections(plan, version)
    rules = {rule.rank: rule for x in http_listeners(plan) for table in x.hosts for rule in table.rules}
    for rank in sorted(rules):
        yield from _rule_objections(rules[rank])
    routes = http_routes(plan)
    is_limited = any(route.rate_limit or route.concurrency for route in routes)
    routers = count_routers(plan) if is_limited else {}
    for route in routes:
        yield from _route_objections(route, routers.get(route.name, 0))
    for pool in http_pools(plan):
        yield from _pool_objections(plan, pool)


def _rule_objections(rule: Rule) -> Iterator[Objection]:
    for wanted in rule.match.conditions:
        if why := refusal(CONDITIONS, wanted):
            yield Objection(refused(why), f"{rule.field}.{wanted.field}", FEATURES[wanted.kind])
    for wanted in rule.match.on(Header):
        if wanted.subject.name in _SET_BEFORE:
            yield Objection(_AS_SET, f"{rule.field}.headers", "match.headers")
        if isinstance(wanted.operator, Exact) and "," in wanted.operator.value:
            yield Objection(_LIST, f"{rule.field}.headers", "match.headers")


def _route_objections(route: Route, routers: int) -> Iterator[Objection]:
    if route.rate_limit is not None and routers > 1:
        yield Objection(_SEPARATE_COUNTS["route.rate_limit"], f"{route.field}.rate_limit", "route.rate_limit")
    if route.concurrency is not None and routers > 1:
        yield Objection(_SEPARATE_COUNTS["route.concurrency"], f"{route.field}.concurrency", "route.concurrency")
    for mirror in route.action.mirrors if isinstance(route.action, Forward) else ():
        if mirror.percent != round(mirror.percent):
            yield Objection(_PERCENT, mirror.field, "route.mirror")


def _pool_objections(plan: Plan, pool: Pool) -> Iterator[Objection]:
    if plan.resolvers and any(not endpoint.is_ip for endpoint in pool.endpoints):
        yield Objection(_RESOLVERS, f"{pool.field}.endpoints", "pool.endpoint_names")
    if pool.protocol is PoolProtocol.HTTP2:
        yield Objection(_TUNNEL, f"{pool.field}.protocol", "pool.protocol.http2")
