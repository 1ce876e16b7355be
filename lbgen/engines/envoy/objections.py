"""Verdicts on single places of a plan that Envoy refuses, or serves in its own way."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, habit, refused
from lbgen.engines.conditions import refusal
from lbgen.engines.envoy.matching import CONDITIONS
from lbgen.engines.envoy.retries import count_tries
from lbgen.engines.envoy.timeouts import compute_idle_timeout
from lbgen.engines.envoy.tls import select_certificates
from lbgen.engines.escapes import has_boundary, parse
from lbgen.plan.conditions import FEATURES, Header, Query, Regex
from lbgen.plan.features import Feature
from lbgen.plan.model import Balance, Forward, Mode, PoolProtocol, Protocol
from lbgen.plan.policy import RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.plan.model import Listener, Plan, Pool, Route, Rule
    from lbgen.plan.policy import Retries

# Headers that Envoy removes from a request before it matches routes.
_REMOVED_HEADERS = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})

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
                for objection in _rule_objections(rule) if rule.match.conditions else ():
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
    counted = {use.field for use in plan.uses if use.feature is Feature.KEEPALIVE}
    for pool in plan.pools:
        yield from _pool_objections(pool, counted)


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
    for each in rule.match.conditions:
        feature, place = Feature(FEATURES[each.kind]), f"{rule.field}.{each.field}"
        if isinstance(each.subject, Header) and each.subject.name in _REMOVED_HEADERS:
            yield Objection(refused("Envoy removes this header before it matches routes"), place, feature)
        if why := refusal(CONDITIONS, each):
            yield Objection(refused(why), place, feature)
        operator = each.operator
        if isinstance(each.subject, Query) and isinstance(operator, Regex) and has_boundary(parse(operator.value)):
            note = "\\b and \\B see the percent-encoded value, not the decoded one"
            shows = {"match.query.regex.boundary": ("accepted", "status 404")}
            yield Objection(habit(note, shows), place, feature)


def _route_objections(plan: Plan, route: Route, rules: list[tuple[Listener, Rule]]) -> Iterator[Objection]:
    listeners = {listener.name: listener for listener, _ in rules}.values()
    if route.rate_limit is not None and len(listeners) > 1:
        note = "each listener counts by itself, so a client may have the rate on each; nginx and HAProxy count together"
        apart: dict[str, str | tuple[str, ...]] = {"route.rate_limit.by_route": ("status 200", "text: clients: ")}
        yield Objection(approximate(note, apart), f"{route.field}.rate_limit", Feature.RATE_LIMIT)
    forward = route.action
    if not isinstance(forward, Forward):
        if route.cors is not None:
            note = (
                "Envoy's CORS filter passes over routes that answer by themselves; write these headers in the response"
            )
            yield Objection(refused(note), f"{route.field}.cors", Feature.CORS)
        return
    times = forward.timeouts
    if times.idle and not 0 < times.response <= times.idle:
        held = f"the response time of {times.response} ms" if times.response else "that, without a limit,"
        note = f"Envoy has one clock for the wait for a response and for silence within it: {held} holds for both"
        shows: dict[str, str | tuple[str, ...]] = {"timeouts.idle.body": "time"}
        yield Objection(approximate(note, shows), f"{route.field}.timeouts.idle", Feature.TIMEOUT_IDLE)
    longest = {each: compute_idle_timeout(times, each.timeouts, count_tries(forward)) for each in listeners}
    uploads = {time for each, time in longest.items() if time != each.timeouts.body}
    if uploads:
        note = f"a pause within a request's body ends {_when(uploads)}, the longest time of the route"
        paused: dict[str, str | tuple[str, ...]] = {
            "listener.timeouts.body": ("time", "status 200", "open", "text: the upload", "text: the stream ended"),
            "listener.timeouts.stuck_endpoint": "text: the upload",
        }
        yield Objection(habit(note, paused), f"{route.field}.timeouts.idle", Feature.CLIENT_TIMEOUTS)
    tunnels = {time for time in longest.values() if time != times.idle}
    if tunnels:
        note = f"a silent tunnel ends {_when(tunnels)}, the longest time of the route"
        silent: dict[str, str | tuple[str, ...]] = {
            "timeouts.idle.tunnel_end": ("text: the tunnel is", "text: of silence the tunnel")
        }
        yield Objection(habit(note, silent), f"{route.field}.timeouts.idle", Feature.TIMEOUT_IDLE)
    if forward.retries is not None:
        yield from _retry_objections(plan, route, forward, forward.retries)


def _when(times: set[int]) -> str:
    return "never" if 0 in times else f"after {max(times)} ms"


def _retry_objections(plan: Plan, route: Route, forward: Forward, retries: Retries) -> Iterator[Objection]:
    place = f"{route.field}.retries"
    asked = retries.causes
    alike = frozenset(RetryCause)
    if asked & {RetryCause.RESET, RetryCause.TIMEOUT} and asked != alike:
        more = " or ".join(sorted(cause.value for cause in alike - asked))
        note = f"Envoy does not distinguish reset, timeout and connect_failure here: it also retries after {more}"
        shows = {"route.retries.alike": ("text: tries reached endpoints", "time", "text: ms at least when")}
        yield Objection(habit(note, shows), f"{place}.on", Feature.RETRIES)
    pools = [plan.pool(target.pool) for target in forward.targets if target.weight]
    if any(pool.balance is Balance.LEAST_CONNECTIONS and len(pool.endpoints) > 1 for pool in pools):
        note = "with least_connections a retry may go to the endpoint that failed while all others are busier"
        back = {"route.retries.untried": ("text: came back", "text: answers")}
        yield Objection(habit(note, back), place, Feature.RETRIES)


def _listener_objections(plan: Plan, listener: Listener) -> Iterator[Objection]:
    if listener.protocol is Protocol.UDP:
        yield from _udp_objections(plan, listener)
    if listener.paths.encoded_unreserved:
        note = "Envoy decodes escapes of unreserved characters before routing; `paths: verbatim` keeps them"
        yield Objection(refused(note), f"{listener.field}.paths", Feature.PATHS_ALLOW)
    if listener.tls is not None and len(select_certificates(listener.tls.certificates)) > 1:
        note = "a server name with capital letters, which no browser sends, gets the first certificate"
        capitals = {"listener.tls.capitals": "text: TLS: names"}
        yield Objection(habit(note, capitals), f"{listener.field}.tls.certificates", Feature.TLS_TERMINATE)
        note = "a client without a server name gets the first ECDSA certificate that it can use, before any RSA one"
        shows = {"listener.tls.no_sni.kinds": ("text: TLS: names", "text: TLS: certificate")}
        yield Objection(habit(note, shows), f"{listener.field}.tls", Feature.TLS_NO_SNI)


def _udp_objections(plan: Plan, listener: Listener) -> Iterator[Objection]:
    for name in dict.fromkeys(rule.route for rule in listener.l4_rules):
        forward = plan.route(name).action
        if isinstance(forward, Forward) and sum(1 for target in forward.targets if target.weight) > 1:
            note = "Envoy does not split datagrams over pools"
            yield Objection(refused(note), f"{plan.route(name).field}.forward", Feature.L4_UDP)
    if listener.max_connections is not None:
        note = "Envoy limits connections, and datagrams have none"
        yield Objection(refused(note), f"{listener.field}.max_connections", Feature.L4_MAX_CONNECTIONS)


def _pool_objections(pool: Pool, counted: set[str]) -> Iterator[Objection]:
    if pool.keepalive and f"{pool.field}.connections.keepalive" in counted:
        note = "Envoy keeps every idle connection for `keepalive_idle`, however many there are"
        shows = {"pool.connections.keepalive.count": "text: idle connections"}
        yield Objection(habit(note, shows), f"{pool.field}.connections.keepalive", Feature.KEEPALIVE)
    if pool.sticky is not None and not all(endpoint.is_ip for endpoint in pool.endpoints):
        note = "Envoy finds the endpoint of a cookie by its address, and a name has one only at run time"
        yield Objection(refused(note), f"{pool.field}.sticky", Feature.STICKY)
    if pool.max_per_endpoint is not None and pool.protocol is not PoolProtocol.HTTP1:
        note = "Envoy bounds the connections of an endpoint, and one of HTTP/2 serves many requests"
        yield Objection(refused(note), f"{pool.field}.connections.max_per_endpoint", Feature.MAX_PER_ENDPOINT)
    if pool.protocol is not PoolProtocol.HTTP1:
        note = (
            "a WebSocket handshake of HTTP/1.1 reaches the endpoint as an extended CONNECT (RFC 8441), and Envoy's 101 "
            "has only a Sec-WebSocket-Accept that the endpoint sends"
        )
        yield Objection(habit(note), f"{pool.field}.protocol", Feature.POOL_HTTP2)
    if pool.slow_start and pool.balance not in (Balance.ROUND_ROBIN, Balance.LEAST_CONNECTIONS):
        note = f"Envoy has no slow start with {pool.balance}"
        yield Objection(refused(note), f"{pool.field}.slow_start", Feature.SLOW_START)
    if pool.slow_start and pool.passive is not None:
        note = "an endpoint gets its full share at once after an ejection by passive checks"
        shows = {"pool.slow_start.after_ejection": "text: just back"}
        yield Objection(habit(note, shows), f"{pool.field}.slow_start", Feature.SLOW_START)
