"""Places of a plan that nginx cannot honour, or honours in part: those of features, and of listeners and rules."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines import escapes
from lbgen.engines.api import Objection, approximate, habit, refused
from lbgen.engines.conditions import has_all
from lbgen.engines.nginx.definitions import Definitions
from lbgen.engines.nginx.features import FEATURES as CONTRIBUTORS
from lbgen.engines.nginx.l4 import port_settings
from lbgen.engines.nginx.matching import CONDITIONS, key_regex, key_variables
from lbgen.engines.nginx.pool_objections import pool_objections
from lbgen.engines.nginx.request_values import RequestValues, is_readable
from lbgen.engines.nginx.support import VERSIONS
from lbgen.engines.nginx.upstream_protocols import GRPC, upstream_module
from lbgen.engines.nginx.upstreams import with_loopback
from lbgen.engines.nginx.view import http_routes
from lbgen.plan.conditions import FEATURES, Header, Query, Regex
from lbgen.plan.model import Forward, Listener, Match, Mode, Plan, Pool, Protocol, Route, Rule
from lbgen.plan.policy import KeyKind, PathsMode
from lbgen.plan.precedence import Candidate
from lbgen.plan.route_values import route_facts, shared_facts
from lbgen.plan.tls import HYBRID
from lbgen.plan.values import Fact, Placeholder

_MAX_KEY = 3900  # bytes of one parameter, with room for its quotes and the rest of the line
_OTHER_HOST_SHOWS = ("status 421", "tries", "whole", "time", "endpoint", "places", "rate", "other")


def objections(plan: Plan, version: str) -> Iterator[Objection]:
    """All objections to `plan`."""
    plan = with_loopback(plan)
    yield from pool_objections(plan, version)
    yield from _client_addresses(plan)
    yield from _normalized_paths(plan, version)
    yield from _l4(plan, version)
    yield from _proxy_headers(plan)
    for field, file in plan.named_files():
        if "$" in file.path:
            yield Objection(refused("nginx expands variables in file names, so a path cannot contain `$`"), field)
    for listener in plan.listeners:
        yield from _listener(listener, version)
    for each in CONTRIBUTORS:
        if each.objections:
            yield from each.objections(plan, version)
    every = (rule for x in plan.listeners for table in x.hosts for rule in table.rules)
    rules = {rule.rank: rule for rule in every if _needs_map(rule.match)}
    for rank in sorted(rules):
        yield from _rule(rules[rank])


def _client_addresses(plan: Plan) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.proxy_protocol and listener.trusted_proxies:
            either = "nginx takes a client's address either from the PROXY header or from a field"
            if listener.client_header is not None:
                yield Objection(refused(f"{either}; remove one of them"), f"{listener.field}.client_ip")
            if listener.real_ip:
                why = f"{either}; remove trusted_proxies of {listener.name}, or real_ip"
                yield Objection(refused(why), "forwarded_headers.real_ip")
            routes = http_routes(plan, listener)
            facts = {*shared_facts(listener, routes)}.union(*map(route_facts, routes))
            if Placeholder(Fact.CLIENT_IP) in facts:
                why = f"{either}; remove trusted_proxies of {listener.name}, or {{client_ip}}"
                yield Objection(refused(why), listener.field, "values.client_ip")
            for route in routes:
                for name, counter in (("rate_limit", route.rate_limit), ("concurrency", route.concurrency)):
                    if counter is not None and counter.key.kind is KeyKind.CLIENT_IP:
                        why = (
                            "nginx takes a client's address either from the PROXY header or from X-Forwarded-For; "
                            f"remove trusted_proxies of {listener.name}, or count by a header"
                        )
                        yield Objection(refused(why), f"{route.field}.{name}", None)


def _normalized_paths(plan: Plan, version: str) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.paths.mode is not PathsMode.NORMALIZE:
            continue
        for route in http_routes(plan, listener):
            if any(upstream_module(pool, VERSIONS[version]) == GRPC for pool in _pools(plan, route)):
                why = "nginx's gRPC module, which implements HTTP/2 to endpoints here, cannot send a normalised target"
                yield Objection(refused(why), f"{route.field}.forward", "paths.normalize")


def _pools(plan: Plan, route: Route) -> list[Pool]:
    return [plan.pool(t.pool) for t in route.action.targets] if isinstance(route.action, Forward) else []


def _l4(plan: Plan, version: str) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.mode is Mode.L7:
            continue
        if len(port_settings(plan, listener)) > 1:
            why = (
                "nginx sets timeouts, TLS and PROXY header to endpoints per port; give all routes of the listener the "
                "same settings, or a listener each"
            )
            yield Objection(refused(why), listener.field, "listener.l4.tcp")
        if not VERSIONS[version].http2_directive and listener.tls is not None and not listener.tls.passthrough:
            why = "nginx 1.22 does not select by server name where it terminates TLS for L4 (1.25 and newer do)"
            yield Objection(refused(why), f"{listener.field}.tls", "listener.tls")
        if listener.protocol is Protocol.UDP and listener.proxy_protocol:
            why = "nginx reads no PROXY header from datagrams"
            yield Objection(refused(why), f"{listener.field}.proxy_protocol", "listener.proxy_protocol")


def _proxy_headers(plan: Plan) -> Iterator[Objection]:
    l4 = {p.name for x in plan.listeners for rule in x.l4_rules for p in _pools(plan, plan.route(rule.route))}
    for pool in plan.pools:
        if pool.proxy_protocol == "v2" and pool.name in l4:
            why = "nginx sends version 1 of the PROXY header only; set proxy_protocol: v1"
            yield Objection(refused(why), f"{pool.field}.proxy_protocol", "pool.proxy_protocol.l4")


def _listener(listener: Listener, version: str) -> Iterator[Objection]:
    if listener.tls is not None and HYBRID in listener.tls.curves:
        why = f"nginx knows {HYBRID} with OpenSSL 3.5 or newer only, and offers it by itself there: leave curves out"
        yield Objection(refused(why), f"{listener.field}.tls.curves", "listener.tls.curves")
    if not VERSIONS[version].http2_directive and listener.http2 and listener.tls is None:
        why = "nginx 1.22 cannot serve HTTP/1.1 and HTTP/2 on one port without TLS (1.25 and newer can)"
        yield Objection(refused(why), f"{listener.field}.http2", "listener.http2")
    if listener.tls is not None and listener.tls.client_ca is not None and listener.mode is Mode.L7:
        why = "a request for a host other than the server name of its handshake is answered with 421"
        other = {"listener.tls.client.other_name": _OTHER_HOST_SHOWS}
        yield Objection(habit(why, other), f"{listener.field}.tls.client", "listener.tls.client")


def _rule(rule: Rule) -> Iterator[Objection]:
    match = rule.match
    for condition in match.on(Header):
        name, operator = condition.subject.name, condition.operator
        if not is_readable(name):
            yield Objection(refused(f"nginx cannot read the header {name}"), rule.field)
        elif isinstance(operator, Regex) and operator.accepts(""):
            note = f"nginx does not distinguish an empty header {name} from a missing one"
            shows = {"match.headers.regex.empty": "status 404"}
            yield Objection(approximate(note, shows), rule.field, FEATURES[condition.kind])
    for condition in match.on(Query):
        operator = condition.operator
        if isinstance(operator, Regex) and escapes.has_boundary(escapes.parse(operator.value)):
            yield Objection(refused(r"nginx cannot find \b in a percent-encoded value"), rule.field)
            return
    if not has_all(CONDITIONS, match):
        return
    values, candidate = RequestValues(Definitions()), Candidate(rule, test_path=True)
    if len(key_regex(candidate, key_variables([candidate], values), values)) > _MAX_KEY:
        yield Objection(refused("the conditions of this match exceed the longest line of nginx.conf"), rule.field)


def _needs_map(match: Match) -> bool:
    return not (match.path_only and match.path.is_text) or len(match.path.value) > _MAX_KEY // 16
