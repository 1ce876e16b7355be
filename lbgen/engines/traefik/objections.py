"""Verdicts on single places of a plan that Traefik refuses, or serves in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, habit, refused
from lbgen.engines.conditions import refusal
from lbgen.engines.traefik.listeners import find_routes
from lbgen.engines.traefik.matching import CONDITIONS
from lbgen.engines.traefik.routers import count_routers
from lbgen.engines.traefik.tls import find_terminating, list_certificates
from lbgen.plan.conditions import FEATURES, Exact, Header
from lbgen.plan.features import Feature
from lbgen.plan.model import Balance, Forward, Mode, PoolProtocol, Protocol
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.api import Verdict
    from lbgen.plan.model import L4Rule, Listener, Plan, Pool, Route, Rule
    from lbgen.plan.policy import ActiveHealth, Key

_CAN = "; nginx, HAProxy and Envoy can"
# L4
_IDLE = approximate(
    "Traefik never closes a silent TCP connection, whatever the idle time", {"timeouts.idle.l4": "open"}
)
_L4_BALANCE = refused(f"Traefik balances TCP and UDP round robin only{_CAN}")
_L4_HEALTH = refused(f"Traefik does not check UDP servers{_CAN}")
_L4_PASSIVE = refused(f"Traefik does not count failures of TCP connections{_CAN}")
_L4_BACKUP = refused(f"Traefik has no backup for TCP and UDP servers without active checks{_CAN}")
_SOURCES = refused("Traefik's UDP routers accept datagrams from every source; nginx and Envoy can filter them")
_HEADER = habit(
    "Traefik forwards a TCP connection without a PROXY header instead of closing it",
    {"listener.proxy_protocol.l4": "status 200"},
)
# TLS
_FIRST = approximate(
    "Traefik shows clients without a server name the first certificate of the first TLS listener, on this listener too",
    {"listener.tls.no_sni.other": "text: TLS: "},
)
_TWICE = refused(f"Traefik picks either of two certificates that hold the same name{_CAN}")
# L7
_ADDED = habit(
    "X-Forwarded-Proto, -Host and -Port are added where trusted proxies send none, though forwarded_headers is off",
    {"listener.trusted_proxies.everywhere": tuple(f"header x-forwarded-{name}" for name in ("host", "port", "proto"))},
)
_APPENDED = habit(
    "X-Forwarded-For is added though forwarded_headers is off, as Traefik can leave it from 3.7 on",
    {"forwarded_headers.everywhere": "header x-forwarded-for"},
)
_EMPTY_SEGMENTS = refused(f"Traefik merges repeated slashes before rules look at a path{_CAN}")
_UNRESERVED = approximate("escapes of letters and digits reach endpoints decoded")
_TOGETHER = "requests without the header, or with an empty one, are counted together"
_SHARED_BUCKETS = {
    feature: habit(_TOGETHER, {f"{feature}.routes": ("text: without the header", "text: with an empty one")})
    for feature in (Feature.RATE_LIMIT, Feature.CONCURRENCY)
}
_FORGED = refused(f"Traefik cannot tell who made an X-Request-Id before it counts{_CAN}")
_PER_ROUTER = (
    "each router of the route has its own count: there is one for each match, and for listeners with other routes, "
    "access or certificates"
)
_SEPARATE_COUNTS = {
    Feature.RATE_LIMIT: approximate(_PER_ROUTER, {"route.rate_limit.routes": "text: times 200, then 429"}),
    Feature.CONCURRENCY: approximate(_PER_ROUTER, {"route.concurrency.routes": "text: third request"}),
}
_PERCENT = approximate("Traefik mirrors whole percents")
_SET_BEFORE = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-real-ip")
_AS_SET = habit(
    "where a trusted proxy sends no such field, rules see it as Traefik sets it",
    {"match.headers.routes": ("text: an endpoint answered", "status 404")},
)
_LIST = habit("a value with a comma is not matched over two lines of the header")
_RANDOM_WEIGHTS = refused(f"Traefik's choice between two random endpoints has no weights{_CAN}")
_COMPARED = 2  # endpoints whose requests Traefik compares
_TWO_CHOICES = habit("of more than two endpoints the less busy of two random ones is chosen")
_ONE_CHECK = habit(
    "one failed check takes an endpoint out, one good check brings it back", {"pool.health.active.routes": "text: "}
)
_STATUSES = approximate(
    f"Traefik's checks take 200 to 399 for good, or one status alone{_CAN}", {"pool.health.active.routes": "text: "}
)
_CONNECT_CHECK = approximate("the check is a GET of /, as Traefik has no checks by a connection alone")
_UNCHECKED_BACKUP = refused("Traefik fails over to backups by active checks alone: give the pool health.active")
_RESOLVERS = habit("Traefik resolves names by the system's resolver")
_TUNNEL = habit("handshakes of WebSocket go to endpoints of HTTP/2 over HTTP/1.1; one that lacks it answers none")


def find_objections(plan: Plan, version: str) -> Iterator[Objection]:
    """All of them, in the order of the plan."""
    yield from _tls_objections(plan)
    for listener in plan.listeners:
        if listener.mode is Mode.L4:
            yield from _l4_objections(plan, listener)
        else:
            yield from _listener_objections(listener, version)
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    rules = {rule.rank: rule for listener in level7 for table in listener.hosts for rule in table.rules}
    for rank in sorted(rules):
        yield from _rule_objections(rules[rank])
    served = {route.name: route for listener in level7 for route in find_routes(plan, listener)}
    is_limited = any(route.rate_limit or route.concurrency for route in served.values())
    routers = count_routers(plan) if is_limited else {}
    for route in plan.routes:
        if route.name in served:
            yield from _route_objections(route, routers.get(route.name, 0))
    for pool in _pools(plan, served.values()):
        yield from _pool_objections(plan, pool)


def _tls_objections(plan: Plan) -> Iterator[Objection]:
    found = list(find_terminating(plan.listeners))
    for listener, tls in found[1:]:
        if tls.certificates[0].cert.path != found[0][1].certificates[0].cert.path:
            yield Objection(_FIRST, f"{listener.field}.tls", Feature.TLS_NO_SNI)
    holders: dict[str, str] = {}
    for certificate in list_certificates(plan.listeners):
        for name in certificate.names:
            if holders.setdefault(str(name), certificate.cert.path) != certificate.cert.path:
                yield Objection(_TWICE, certificate.field, Feature.TLS_TERMINATE)
                break


def _listener_objections(listener: Listener, version: str) -> Iterator[Objection]:
    if version == "3.6" and not listener.forwarded_headers:
        yield Objection(_APPENDED, f"{listener.field}.forwarded_headers", Feature.FORWARDED_HEADERS)
    if listener.trusted_proxies and not listener.forwarded_headers:
        yield Objection(_ADDED, f"{listener.field}.trusted_proxies", Feature.TRUSTED_PROXIES)
    if listener.paths.empty_segments:
        yield Objection(_EMPTY_SEGMENTS, f"{listener.field}.paths", Feature.PATHS_ALLOW)
    elif listener.paths.encoded_unreserved:
        yield Objection(_UNRESERVED, f"{listener.field}.paths", Feature.PATHS_ALLOW)


def _rule_objections(rule: Rule) -> Iterator[Objection]:
    for wanted in rule.match.conditions:
        if why := refusal(CONDITIONS, wanted):
            yield Objection(refused(why), f"{rule.field}.{wanted.field}", Feature(FEATURES[wanted.kind]))
    for wanted in rule.match.on(Header):
        if wanted.subject.name in _SET_BEFORE:
            yield Objection(_AS_SET, f"{rule.field}.headers", Feature("match.headers"))
        if isinstance(wanted.operator, Exact) and "," in wanted.operator.value:
            yield Objection(_LIST, f"{rule.field}.headers", Feature("match.headers"))


def _route_objections(route: Route, routers: int) -> Iterator[Objection]:
    for name, limit, feature in (
        ("rate_limit", route.rate_limit, Feature.RATE_LIMIT),
        ("concurrency", route.concurrency, Feature.CONCURRENCY),
    ):
        if limit is not None:
            if routers > 1:
                yield Objection(_SEPARATE_COUNTS[feature], f"{route.field}.{name}", feature)
            yield from _key_objections(limit.key, f"{route.field}.{name}", feature)
    if isinstance(route.action, Forward):
        for mirror in route.action.mirrors:
            if mirror.percent != round(mirror.percent):
                yield Objection(_PERCENT, mirror.field, Feature.MIRROR)


def _key_objections(key: Key, field: str, feature: Feature) -> Iterator[Objection]:
    if key.kind is KeyKind.HEADER:
        yield Objection(_FORGED if key.name == "x-request-id" else _SHARED_BUCKETS[feature], f"{field}.key", feature)


def _pools(plan: Plan, routes: Iterable[Route]) -> Iterator[Pool]:
    """The pools of routes that serve HTTP."""
    actions = [route.action for route in routes if isinstance(route.action, Forward)]
    used = {target.pool for action in actions for target in action.targets}
    used |= {mirror.pool for action in actions for mirror in action.mirrors}
    return (pool for pool in plan.pools if pool.name in used)


def _pool_objections(plan: Plan, pool: Pool) -> Iterator[Objection]:
    serving = [each for each in pool.endpoints if each.weight]
    if pool.balance is Balance.LEAST_CONNECTIONS and len(serving) > _COMPARED:
        yield Objection(_TWO_CHOICES, f"{pool.field}.balance", Feature.LEAST_CONNECTIONS)
    if pool.balance is Balance.RANDOM and len({each.weight for each in serving}) > 1:
        yield Objection(_RANDOM_WEIGHTS, f"{pool.field}.balance", Feature.RANDOM)
    if pool.active is not None:
        yield Objection(_judge_check(pool.active), f"{pool.field}.health.active", Feature.HEALTH_ACTIVE)
    for endpoint in pool.endpoints:
        if endpoint.backup and pool.active is None:
            yield Objection(_UNCHECKED_BACKUP, f"{endpoint.field}.backup", Feature.BACKUP)
    if plan.resolvers and any(not endpoint.is_ip for endpoint in pool.endpoints):
        yield Objection(_RESOLVERS, f"{pool.field}.endpoints", Feature.ENDPOINT_NAMES)
    if pool.protocol is PoolProtocol.HTTP2:
        yield Objection(_TUNNEL, f"{pool.field}.protocol", Feature.POOL_HTTP2)


def _judge_check(active: ActiveHealth) -> Verdict:
    if active.path is None:
        return _CONNECT_CHECK
    (first, last), *more = active.statuses
    return _STATUSES if more or ((first, last) not in _CHECKED and first != last) else _ONE_CHECK


_CHECKED = ((200, 299), (200, 399))


def _l4_objections(plan: Plan, listener: Listener) -> Iterator[Objection]:
    if listener.proxy_protocol:
        yield Objection(_HEADER, f"{listener.field}.proxy_protocol", Feature.PROXY_PROTOCOL_IN)
    if listener.protocol is Protocol.UDP and listener.access is not None:
        yield Objection(_SOURCES, f"{listener.field}.access", Feature.LISTENER_ACCESS)
    for rule in listener.l4_rules:
        yield from _l4_route_objections(plan, listener, rule)


def _l4_route_objections(plan: Plan, listener: Listener, rule: L4Rule) -> Iterator[Objection]:
    route = plan.route(rule.route)
    if not isinstance(route.action, Forward):
        return
    if listener.protocol is Protocol.UDP and route.access is not None:
        yield Objection(_SOURCES, f"{route.field}.access", Feature.ROUTE_ACCESS)
    if listener.protocol is Protocol.UDP and rule.sources:
        yield Objection(_SOURCES, f"{route.field}.sources", Feature.L4_SOURCES)
    if listener.protocol is Protocol.TCP and route.action.timeouts.idle:
        yield Objection(_IDLE, f"{route.field}.timeouts.idle", Feature.TIMEOUT_IDLE)
    for target in route.action.targets:
        yield from _l4_pool_objections(plan.pool(target.pool), listener.protocol)


_BALANCES = {
    Balance.LEAST_CONNECTIONS: Feature.LEAST_CONNECTIONS,
    Balance.RANDOM: Feature.RANDOM,
    Balance.SOURCE_HASH: Feature.SOURCE_HASH,
    Balance.HASH: Feature.HASH,
}


def _l4_pool_objections(pool: Pool, protocol: Protocol) -> Iterator[Objection]:
    if pool.balance in _BALANCES and len(pool.endpoints) > 1:
        yield Objection(_L4_BALANCE, f"{pool.field}.balance", _BALANCES[pool.balance])
    checked = pool.active is not None and protocol is Protocol.TCP
    if pool.active is not None and not checked:
        yield Objection(_L4_HEALTH, f"{pool.field}.health.active", Feature.HEALTH_ACTIVE)
    if pool.passive is not None:
        yield Objection(_L4_PASSIVE, f"{pool.field}.health.passive", Feature.HEALTH_PASSIVE)
    for endpoint in pool.endpoints:
        if endpoint.backup and not checked:
            yield Objection(_L4_BACKUP, f"{endpoint.field}.backup", Feature.BACKUP)
