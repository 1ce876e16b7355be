"""Verdicts on single places of a plan that Envoy refuses or approximates."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.envoy.cors import RESPONSE_HEADERS
from lbgen.engines.envoy.timeouts import list_idle_timeouts
from lbgen.engines.envoy.tls import select_certificates
from lbgen.engines.envoy.upstreams import plan_clusters
from lbgen.engines.escapes import has_boundary, may_hold, parse
from lbgen.plan.features import Feature
from lbgen.plan.model import Balance, Forward, Mode, Protocol, ValueKind
from lbgen.plan.policy import PathsMode, RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.envoy.timeouts import IdleTimeouts
    from lbgen.plan.model import Listener, Plan, Pool, Route, Rule
    from lbgen.plan.policy import Retries

# Headers that Envoy removes from a request before it matches routes.
_REMOVED_HEADERS = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})

_NO_SAVED_PEER = refused(
    "Envoy 1.37 cannot hash the peer of connections on a listener where access lists or limits look at the client "
    "behind trusted_proxies; 1.38 can"
)

_ALTERED_BODY = refused(
    "beside `buffering.request`, Envoy 1.37 sends other bytes than the client's at a try before the last, where the "
    "body has no length; 1.38 does not"
)


def find_objections(plan: Plan, version: str) -> Iterator[Objection]:
    """One objection per place, each place once."""
    seen: set[tuple[str, str]] = set()
    for listener in plan.listeners:
        for table in listener.hosts:
            for rule in table.rules:
                for objection in _rule_objections(rule) if rule.match.headers or rule.match.query else ():
                    key = (objection.field, objection.verdict.note)
                    if key not in seen:
                        seen.add(key)
                        yield objection
    l4 = {rule.route for listener in plan.listeners if listener.mode is Mode.L4 for rule in listener.l4_rules}
    rules = _rules_by_route(plan)
    for route in plan.routes:
        if route.name not in l4:
            yield from _route_objections(plan, route, rules[route.name])
            if version == "1.37" and _resends_buffered(route):
                yield Objection(_ALTERED_BODY, f"{route.field}.retries", Feature.RETRIES)
    for listener in plan.listeners:
        yield from _listener_objections(plan, listener)
    clusters = plan_clusters(plan)
    counted = {use.field for use in plan.uses if use.feature is Feature.KEEPALIVE}
    for pool in plan.pools:
        yield from _pool_objections(pool, clusters.l4, counted)
        hashed = pool.balance is Balance.SOURCE_HASH and pool.name in clusters.l7
        if hashed and clusters.saved_peer and version == "1.37":
            yield Objection(_NO_SAVED_PEER, f"{pool.field}.balance", Feature.SOURCE_HASH)


def _resends_buffered(route: Route) -> bool:
    action = route.action
    return isinstance(action, Forward) and action.retries is not None and action.buffering.request


def _rules_by_route(plan: Plan) -> Mapping[str, list[tuple[Listener, Rule]]]:
    """The rules of each route with their listeners, collected once for all routes."""
    rules: defaultdict[str, list[tuple[Listener, Rule]]] = defaultdict(list)
    for listener in plan.listeners:
        for table in listener.hosts:
            for rule in table.rules:
                rules[rule.route].append((listener, rule))
    return rules


def _rule_objections(rule: Rule) -> Iterator[Objection]:
    for header in rule.match.headers:
        place = f"{rule.field}.headers.{header.name}"
        if header.name in _REMOVED_HEADERS:
            yield Objection(refused("Envoy removes this header before it matches routes"), place, Feature.HEADER)
    for parameter in rule.match.query:
        if parameter.value.kind is ValueKind.REGEX and has_boundary(parse(parameter.value.value)):
            note = "\\b and \\B see the percent-encoded value, not the decoded one"
            shows = {"match.query.regex.boundary": ("accepted", "status 404")}
            yield Objection(approximate(note, shows), f"{rule.field}.query.{parameter.name}", Feature.QUERY_REGEX)
        if parameter.value.kind is ValueKind.REGEX and may_hold(parse(parameter.value.value), "%"):
            # Envoy compares raw queries, and RE2 has no look-ahead to tell such a % from an escape.
            note = "a % in the query that begins no escape matches nothing; %25 does"
            shows = {"match.query.regex.bad_escape": ("accepted", "status 404")}
            yield Objection(approximate(note, shows), f"{rule.field}.query.{parameter.name}", Feature.QUERY_REGEX)


def _route_objections(plan: Plan, route: Route, rules: list[tuple[Listener, Rule]]) -> Iterator[Objection]:
    forward = route.action
    if not isinstance(forward, Forward):
        return
    times = forward.timeouts
    if times.idle and not 0 < times.response <= times.idle:
        asked = "without limit" if not times.response else f"{times.response} ms"
        note = f"the idle time of {times.idle} ms also ends the wait for a response head ({asked}), with 504"
        shows = {"timeouts.idle.waits": ("status 504", "time")}
        yield Objection(approximate(note, shows), f"{route.field}.timeouts.idle", Feature.TIMEOUT_IDLE)
    clocks = list_idle_timeouts(plan, route, (listener for listener, _ in rules))
    yield from _body_clock_objections(route, clocks, rules)
    for mirror in forward.mirrors:
        if plan.pool(mirror.pool).max_per_endpoint is not None:
            note = f"copies are not counted among the requests of {mirror.pool}"
            copies = {"pool.connections.max_per_endpoint.copies": "text: at a time"}
            yield Objection(approximate(note, copies), mirror.field, Feature.MAX_PER_ENDPOINT)
    if forward.retries is not None:
        yield from _retry_objections(plan, route, forward, forward.retries, clocks)


def _retry_objections(
    plan: Plan, route: Route, forward: Forward, retries: Retries, clocks: list[IdleTimeouts]
) -> Iterator[Objection]:
    place = f"{route.field}.retries"
    asked = retries.causes
    alike = frozenset(RetryCause)
    if asked & {RetryCause.RESET, RetryCause.TIMEOUT} and asked != alike:
        more = " or ".join(sorted(cause.value for cause in alike - asked))
        note = f"Envoy does not distinguish reset, timeout and connect_failure here: it also retries after {more}"
        shows = {"route.retries.alike": ("text: tries reached endpoints", "time", "text: ms at least when")}
        yield Objection(approximate(note, shows), f"{place}.on", Feature.RETRIES)
    pools = [plan.pool(target.pool) for target in forward.targets if target.weight]
    if any(pool.balance is Balance.LEAST_CONNECTIONS and len(pool.endpoints) > 1 for pool in pools):
        note = "with least_connections a retry may go to the endpoint that failed while all others are busier"
        back = {"route.retries.untried": ("text: came back", "text: answers")}
        yield Objection(approximate(note, back), place, Feature.RETRIES)
    if any(pool.max_per_endpoint is not None for pool in pools):
        note = "a retry may go to an endpoint that is full"
        full = {"pool.connections.max_per_endpoint.tries": "text: at a time"}
        yield Objection(approximate(note, full), place, Feature.MAX_PER_ENDPOINT)
    silence = max((each.head_only for each in clocks), default=0)
    times = forward.timeouts
    if 0 < times.response < times.idle and silence != times.idle:
        limit = f"after {silence} ms, the time that all tries may take" if silence else "never"
        note = f"an endpoint or a client that pauses or stops reading within a body times out {limit}"
        said = {"timeouts.idle.body": ("time", "text: the upload", "text: the client took")}
        yield Objection(approximate(note, said), f"{route.field}.timeouts.idle", Feature.TIMEOUT_IDLE)


def _body_clock_objections(
    route: Route, clocks: list[IdleTimeouts], rules: list[tuple[Listener, Rule]]
) -> Iterator[Objection]:
    """Routes whose client_body time also limits the wait for the response."""
    methods = {method for _, rule in rules for method in rule.match.methods or ("POST",)}
    if methods <= {"GET", "HEAD"}:
        return
    for each in clocks:
        if each.is_single:
            continue
        ends = f"within {each.others} ms (client_body)" if each.others else "at any time"
        whole = f"within {each.head_only} ms" if each.head_only else "at any time"
        note = (
            "Envoy has one clock for a client's body and the response to it: for requests other than GET and HEAD the "
            f"response must begin, and continue after a pause, {ends}, not {whole}; set client_body and idle to the "
            "same time, or restrict the route to `methods: [GET]`"
        )
        shows: dict[str, str | tuple[str, ...]] = {
            "timeouts.idle.answered": ("cut", "time", "status 504", "status 200", "text: tries reached endpoints")
        }
        yield Objection(approximate(note, shows), f"{route.field}.timeouts.idle", Feature.TIMEOUT_IDLE)
        return


def _response_header_names(routes: list[Route]) -> tuple[str, ...]:
    """Names of the headers that these routes add to responses."""
    found = [name for route in routes for name, _ in (*route.response_headers.set, *route.response_headers.add)]
    return tuple(
        dict.fromkeys((*found, *(RESPONSE_HEADERS if any(route.cors is not None for route in routes) else ())))
    )


def _listener_objections(plan: Plan, listener: Listener) -> Iterator[Objection]:
    used = dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules)
    routes = [plan.route(name) for name in used]
    if listener.protocol is Protocol.UDP:
        yield from _udp_objections(plan, listener)
    if listener.mode is Mode.L7 and (names := _response_header_names(routes)):
        own = tuple(f"header {name}" for name in names)
        note = "a 400 or 414 for a target has the response_headers of the route that the target matches"
        verdict = approximate(note, {"framing.malformed.route_headers": own})
        yield Objection(verdict, listener.field, Feature.MALFORMED)
        if listener.access is not None:
            note = "a 403 of the listener has the response_headers of the route that the request matches"
            verdict = approximate(note, {"listener.access.route_headers": own})
            yield Objection(verdict, f"{listener.field}.access", Feature.LISTENER_ACCESS)
    if listener.paths.mode is PathsMode.NORMALIZE:
        sizes = {route.max_body for route in routes}
        kinds = {route.compression for route in routes}
        held = {isinstance(r.action, Forward) and r.action.buffering.request for r in routes}
        if max(len(sizes), len(kinds), len(held)) > 1:
            note = (
                "for a target that is not in its normal form max_body, compression and buffering of other routes of "
                "the listener count too"
            )
            others = {"paths.normalize.policies": ("status 413", "header content-encoding", "header vary")}
            yield Objection(approximate(note, others), f"{listener.field}.paths", Feature.PATHS_NORMALIZE)
    if listener.tls is not None and len(select_certificates(listener.tls.certificates)) > 1:
        note = "a server name with capital letters gets the first certificate"
        capitals = {"listener.tls.capitals": "text: TLS: names"}
        yield Objection(approximate(note, capitals), f"{listener.field}.tls.certificates", Feature.TLS_TERMINATE)
        note = "a client without a server name gets the first ECDSA certificate that it can use, before any RSA one"
        shows = {"listener.tls.no_sni.kinds": ("text: TLS: names", "text: TLS: certificate")}
        yield Objection(approximate(note, shows), f"{listener.field}.tls", Feature.TLS_NO_SNI)


def _udp_objections(plan: Plan, listener: Listener) -> Iterator[Objection]:
    for name in dict.fromkeys(rule.route for rule in listener.l4_rules):
        forward = plan.route(name).action
        if isinstance(forward, Forward) and sum(1 for target in forward.targets if target.weight) > 1:
            note = "Envoy does not split datagrams over pools"
            yield Objection(refused(note), f"{plan.route(name).field}.forward", Feature.L4_UDP)
    if listener.max_connections is not None:
        note = "Envoy limits connections, and datagrams have none"
        yield Objection(refused(note), f"{listener.field}.max_connections", Feature.L4_MAX_CONNECTIONS)


def _pool_objections(pool: Pool, l4: frozenset[str], counted: set[str]) -> Iterator[Objection]:
    if pool.keepalive and f"{pool.field}.connections.keepalive" in counted:
        note = "Envoy keeps every idle connection for `keepalive_idle`, however many there are"
        shows = {"pool.connections.keepalive.count": "text: idle connections"}
        yield Objection(approximate(note, shows), f"{pool.field}.connections.keepalive", Feature.KEEPALIVE)
    if pool.sticky is not None and not all(endpoint.is_ip for endpoint in pool.endpoints):
        note = "Envoy finds the endpoint of a cookie by its address, and a name has one only at run time"
        yield Objection(refused(note), f"{pool.field}.sticky", Feature.STICKY)
    if pool.max_per_endpoint is not None:
        yield from _slot_objections(pool, l4)
    if pool.slow_start and pool.balance not in (Balance.ROUND_ROBIN, Balance.LEAST_CONNECTIONS):
        note = f"Envoy has no slow start with {pool.balance}"
        yield Objection(refused(note), f"{pool.field}.slow_start", Feature.SLOW_START)
    if pool.slow_start and pool.passive is not None:
        note = "an endpoint gets its full share at once after an ejection by passive checks"
        shows = {"pool.slow_start.after_ejection": "text: just back"}
        yield Objection(approximate(note, shows), f"{pool.field}.slow_start", Feature.SLOW_START)


def _slot_objections(pool: Pool, l4: frozenset[str]) -> Iterator[Objection]:
    """Options that exclude `max_per_endpoint`, for which lbgen's own filter chooses the endpoint."""
    together = (
        (pool.name in l4, "TCP: Envoy can bound the requests of an endpoint, not its connections"),
        (pool.sticky is not None, "a sticky cookie: both choose the endpoint"),
        (
            pool.balance in (Balance.HASH, Balance.SOURCE_HASH),
            f"balance {pool.balance}: the filter chooses by free slots",
        ),
        (
            any(endpoint.backup for endpoint in pool.endpoints),
            "backups: the filter does not see which endpoints are up",
        ),
        (
            not all(endpoint.is_ip for endpoint in pool.endpoints),
            "endpoint names: the filter works with addresses only",
        ),
        (bool(pool.slow_start), "slow_start: the filter gives full shares only"),
    )
    for clash, what in together:
        if clash:
            note = f"on Envoy max_per_endpoint cannot be combined with {what}"
            yield Objection(refused(note), f"{pool.field}.connections.max_per_endpoint", Feature.MAX_PER_ENDPOINT)
