"""Verdicts on single places of a plan that a Traefik without the plugin refuses or approximates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.traefik.native.matching import count_routers
from lbgen.plan.features import Feature
from lbgen.plan.model import Balance, Forward, Mode, Redirect, ValueKind
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener, Plan, Pool, Route, Rule
    from lbgen.plan.policy import Key

_PEER = refused(
    "Traefik's own limits know the address of the peer only, and behind trusted_proxies that is the proxy's; with a "
    "guarantee of `contract` the lbgen plugin can"
)
_TOGETHER = "requests without the header, or with an empty one, are counted together"
_SHARED_BUCKETS = {
    feature: approximate(_TOGETHER, {f"{feature}.routes": ("text: without the header", "text: with an empty one")})
    for feature in (Feature.RATE_LIMIT, Feature.CONCURRENCY)
}
_PER_ROUTER = (
    "each router of the route has its own count: there is one for each match, and for listeners with other routes, "
    "access or certificates"
)
_SEPARATE_COUNTS = {
    Feature.RATE_LIMIT: approximate(_PER_ROUTER, {"route.rate_limit.routes": "text: times 200, then 429"}),
    Feature.CONCURRENCY: approximate(_PER_ROUTER, {"route.concurrency.routes": "text: third request"}),
}
_NO_BODY = refused("Traefik's buffering takes a size of 0 for no limit; the lbgen plugin can")
_SEE_OTHER = refused("Traefik has no redirect with 303; the lbgen plugin can")
_PERCENT = approximate("Traefik mirrors whole percents")
_SET_BEFORE = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-real-ip")
_AS_SET = approximate(
    "where a trusted proxy sends no such field, rules see it as Traefik sets it",
    {"match.headers.routes": ("text: an endpoint answered", "status 404")},
)
_FORGED = refused("Traefik cannot tell by whom a client's X-Request-Id was made before it counts; leave out this key")
_LIST = approximate("a value with a comma is not matched over two lines of the header")
_WEIGHTS = refused("Traefik's choice between two random endpoints has no weights; the lbgen plugin can")
_COMPARED = 2  # endpoints whose requests Traefik compares
_TWO_CHOICES = approximate("of more than two endpoints the less busy of two random ones is chosen")
_CONNECT_CHECK = approximate("the check is a GET of /, as Traefik has no checks by a connection alone")
_RESOLVERS = approximate("Traefik resolves names by the system's resolver")


def find_objections(plan: Plan) -> Iterator[Objection]:
    """All of them, in the order of the plan; one for each place."""
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    for listener in level7:
        if listener.access is not None and listener.trusted_proxies:
            yield Objection(_PEER, f"{listener.field}.access", Feature.LISTENER_ACCESS)
    rules = {rule.rank: rule for listener in level7 for table in listener.hosts for rule in table.rules}
    yield from _rule_objections(rules[rank] for rank in sorted(rules))
    is_limited = any(route.rate_limit or route.concurrency for route in plan.routes)
    routers = count_routers(plan) if is_limited else {}
    for route in plan.routes:
        served = [x for x in level7 if any(rule.route == route.name for table in x.hosts for rule in table.rules)]
        if served:
            yield from _route_objections(route, served, routers.get(route.name, 0))
    for pool in _pools(plan, {rule.route for rule in rules.values()}):
        yield from _pool_objections(plan, pool)


def _rule_objections(rules: Iterator[Rule]) -> Iterator[Objection]:
    for rule in rules:
        for wanted in rule.match.headers:
            if wanted.name in _SET_BEFORE:
                yield Objection(_AS_SET, f"{rule.field}.headers", Feature.HEADER)
            if wanted.value.kind is ValueKind.EXACT and "," in wanted.value.value:
                yield Objection(_LIST, f"{rule.field}.headers", Feature.HEADER)


def _route_objections(route: Route, served: list[Listener], routers: int) -> Iterator[Objection]:
    behind_proxy = any(listener.trusted_proxies for listener in served)
    if route.access is not None and behind_proxy:
        yield Objection(_PEER, f"{route.field}.access", Feature.ROUTE_ACCESS)
    for name, limit, feature in (
        ("rate_limit", route.rate_limit, Feature.RATE_LIMIT),
        ("concurrency", route.concurrency, Feature.CONCURRENCY),
    ):
        if limit is not None:
            if routers > 1:
                yield Objection(_SEPARATE_COUNTS[feature], f"{route.field}.{name}", feature)
            yield from _key_objections(limit.key, f"{route.field}.{name}", feature, behind_proxy=behind_proxy)
    if route.max_body == 0:
        yield Objection(_NO_BODY, f"{route.field}.max_body", Feature.MAX_BODY)
    match route.action:
        case Redirect(status=303):
            yield Objection(_SEE_OTHER, f"{route.field}.redirect", Feature.REDIRECT)
        case Forward() as forward:
            for mirror in forward.mirrors:
                if mirror.percent != round(mirror.percent):
                    yield Objection(_PERCENT, mirror.field, Feature.MIRROR)


def _key_objections(key: Key, field: str, feature: Feature, *, behind_proxy: bool) -> Iterator[Objection]:
    if key.kind is KeyKind.HEADER and key.name == "x-request-id":
        yield Objection(_FORGED, f"{field}.key", feature)
    elif key.kind is KeyKind.HEADER:
        yield Objection(_SHARED_BUCKETS[feature], f"{field}.key", feature)
    elif key.kind is KeyKind.CLIENT_IP and behind_proxy:
        yield Objection(_PEER, f"{field}.key", feature)


def _pools(plan: Plan, routes: set[str]) -> Iterator[Pool]:
    """The pools of routes that serve HTTP."""
    actions = [plan.route(name).action for name in routes]
    used = {target.pool for action in actions if isinstance(action, Forward) for target in action.targets}
    used |= {mirror.pool for action in actions if isinstance(action, Forward) for mirror in action.mirrors}
    return (pool for pool in plan.pools if pool.name in used)


def _pool_objections(plan: Plan, pool: Pool) -> Iterator[Objection]:
    serving = [each for each in pool.endpoints if each.weight]
    if pool.balance is Balance.LEAST_CONNECTIONS and len(serving) > _COMPARED:
        yield Objection(_TWO_CHOICES, f"{pool.field}.balance", Feature.LEAST_CONNECTIONS)
    if pool.balance is Balance.RANDOM and len({each.weight for each in serving}) > 1:
        yield Objection(_WEIGHTS, f"{pool.field}.balance", Feature.RANDOM)
    if pool.active is not None and pool.active.path is None:
        yield Objection(_CONNECT_CHECK, f"{pool.field}.health.active", Feature.HEALTH_ACTIVE)
    if plan.resolvers and any(not endpoint.is_ip for endpoint in pool.endpoints):
        yield Objection(_RESOLVERS, f"{pool.field}.endpoints", Feature.ENDPOINT_NAMES)
