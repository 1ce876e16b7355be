"""nftables' answer to every feature, and to the single values that decide beyond features."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.engines.api import NATIVE, NOT_YET, UNPORTABLE, Objection, approximate, emulated, refused
from lbgen.engines.nftables.names import family
from lbgen.engines.nftables.upstreams import MOST_SLOTS, balance, forward_of, shares
from lbgen.plan.features import Feature
from lbgen.plan.model import Mode, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.api import Verdict
    from lbgen.plan.model import Plan, Route

_HTTP = refused("it works at L4 and never sees HTTP")
_TLS = refused("it works at L4 on packets and does not read TLS")
_BYTES = refused("it passes packets on and cannot add bytes to a connection")

SUPPORT: dict[Feature, Verdict] = {
    Feature.L7: _HTTP,
    Feature.L4_TCP: NATIVE,
    Feature.L4_UDP: NOT_YET,
    Feature.TLS_TERMINATE: _TLS,
    Feature.TLS_NO_SNI: _TLS,
    Feature.TLS_CLIENT_CERT: _TLS,
    Feature.TLS_PASSTHROUGH: _TLS,
    Feature.HTTP2: _HTTP,
    Feature.PROXY_PROTOCOL_IN: _BYTES,
    Feature.MAX_CONNECTIONS: _HTTP,
    Feature.L4_MAX_CONNECTIONS: NOT_YET,
    Feature.LISTENER_ACCESS: NOT_YET,
    Feature.LISTENER_LIMITS: _HTTP,
    Feature.CLIENT_TIMEOUTS: _HTTP,
    Feature.TRUSTED_PROXIES: _HTTP,
    Feature.DUAL_STACK: refused(
        "the kernel's NAT does not translate between IPv4 and IPv6; give each its own listener"
    ),
    Feature.HOST_EXACT: _HTTP,
    Feature.HOST_WILDCARD: _HTTP,
    Feature.PATH_EXACT: _HTTP,
    Feature.PATH_PREFIX: _HTTP,
    Feature.PATH_REGEX: _HTTP,
    Feature.METHOD: _HTTP,
    Feature.HEADER: _HTTP,
    Feature.HEADER_REGEX: _HTTP,
    Feature.HEADER_PRESENT: _HTTP,
    Feature.QUERY: _HTTP,
    Feature.QUERY_REGEX: _HTTP,
    Feature.QUERY_PRESENT: _HTTP,
    Feature.COOKIE: _HTTP,
    Feature.COOKIE_REGEX: _HTTP,
    Feature.COOKIE_PRESENT: _HTTP,
    Feature.PRIORITY: NATIVE,
    Feature.L4_SNI: _TLS,
    Feature.L4_SOURCES: NOT_YET,
    Feature.PATHS_STRICT: _HTTP,
    Feature.PATHS_ALLOW: _HTTP,
    Feature.PATHS_NORMALIZE: _HTTP,
    Feature.PATHS_VERBATIM: _HTTP,
    Feature.FRAMING: _HTTP,
    Feature.MALFORMED: _HTTP,
    Feature.HOP_BY_HOP: _HTTP,
    Feature.CONNECTION_NOMINATED: _HTTP,
    Feature.UNDERSCORES_DROP: _HTTP,
    Feature.UNDERSCORES_PASS: _HTTP,
    Feature.FORWARDED_HEADERS: _HTTP,
    Feature.REQUEST_ID: _HTTP,
    Feature.REQUEST_HEADERS_SET: _HTTP,
    Feature.REQUEST_HEADERS_ADD: _HTTP,
    Feature.REQUEST_HEADERS_REMOVE: _HTTP,
    Feature.RESPONSE_HEADERS_SET: _HTTP,
    Feature.RESPONSE_HEADERS_ADD: _HTTP,
    Feature.RESPONSE_HEADERS_REMOVE: _HTTP,
    Feature.FORWARD: NATIVE,
    Feature.SPLIT: emulated("the targets' endpoints are one list with combined weights"),
    Feature.SPLIT_HEADERS: _HTTP,
    Feature.REDIRECT: _HTTP,
    Feature.RESPOND: _HTTP,
    Feature.REWRITE_PREFIX: _HTTP,
    Feature.REWRITE_PATH: _HTTP,
    Feature.REWRITE_HOST: _HTTP,
    Feature.MIRROR: _HTTP,
    Feature.CORS: _HTTP,
    Feature.COMPRESSION: _HTTP,
    Feature.BUFFERING: _HTTP,
    Feature.WEBSOCKET: _HTTP,
    Feature.STATUSES: _HTTP,
    Feature.FAILURES: _HTTP,
    Feature.RATE_LIMIT: _HTTP,
    Feature.CONCURRENCY: _HTTP,
    Feature.MAX_BODY: _HTTP,
    Feature.ROUTE_ACCESS: NOT_YET,
    Feature.TIMEOUT_CONNECT: approximate(
        "the client's own packets go on to the endpoint, so when an endpoint does not answer the client's connect time "
        "applies, not this one",
        {"timeouts.connect.l4": "open"},
    ),
    Feature.TIMEOUT_RESPONSE: _HTTP,
    Feature.TIMEOUT_IDLE: approximate(
        "a silent connection is forgotten, not closed: both sides learn it by a reset when they next send",
        {"timeouts.idle.l4": "open"},
    ),
    Feature.TIMEOUT_REQUEST: _HTTP,
    Feature.RETRIES: _HTTP,
    Feature.RETRY_BUDGET: _HTTP,
    Feature.ROUND_ROBIN: NATIVE,
    Feature.LEAST_CONNECTIONS: NOT_YET,
    Feature.LEAST_CONNECTIONS_WEIGHTED: NOT_YET,
    Feature.RANDOM: NATIVE,
    Feature.SOURCE_HASH: NATIVE,
    Feature.SOURCE_HASH_WEIGHTED: NATIVE,
    Feature.HASH: _HTTP,
    Feature.WEIGHTS: NATIVE,
    Feature.DRAIN: NATIVE,
    Feature.BACKUP: NOT_YET,
    Feature.ENDPOINT_NAMES: refused("the kernel's rules hold addresses and resolve no names"),
    Feature.ENDPOINT_IPV6: NATIVE,
    Feature.HEALTH_ACTIVE: NOT_YET,
    Feature.HEALTH_PASSIVE: NOT_YET,
    Feature.KEEPALIVE: _HTTP,
    Feature.MAX_PER_ENDPOINT: NOT_YET,
    Feature.QUEUE: refused("the kernel refuses or passes a connection at once and keeps none waiting"),
    Feature.SLOW_START: NOT_YET,
    Feature.STICKY: _HTTP,
    Feature.POOL_TLS: _TLS,
    Feature.POOL_HTTP2: _HTTP,
    Feature.POOL_GRPC: _HTTP,
    Feature.PROXY_PROTOCOL_OUT: _BYTES,
    Feature.L4_PROXY_PROTOCOL_OUT: _BYTES,
    Feature.ACCESS_LOG: NOT_YET,
    Feature.ESCAPE_HATCH: UNPORTABLE,
    Feature.NFT_DIRECT: NOT_YET,
}


def objections(plan: Plan) -> Iterator[Objection]:
    """What the features do not tell: address families that differ, loopback endpoints, several rules, huge weights."""
    for listener in plan.listeners:
        if listener.mode is not Mode.L4 or listener.protocol is not Protocol.TCP:
            continue  # refused by its feature
        if len(listener.l4_rules) != 1:
            yield Objection(refused("one route per listener is all it can tell apart"), listener.field)
            continue
        route = plan.route(listener.l4_rules[0].route)
        yield from _families(plan, route, listener.address)
    for route in {x.l4_rules[0].route: plan.route(x.l4_rules[0].route) for x in plan.listeners if x.l4_rules}.values():
        if balance(plan, route) is None:
            yield Objection(refused("its targets' pools must have one `balance`"), route.field)
            continue
        total = sum(share.slots for share in shares(plan, route))
        if total > MOST_SLOTS:
            why = f"these weights need a cycle of {total} connections, and {MOST_SLOTS} is the most"
            yield Objection(refused(why), route.field)


def _families(plan: Plan, route: Route, address: str) -> Iterator[Objection]:
    for target in forward_of(route).targets:
        for endpoint in plan.pool(target.pool).endpoints:
            if not endpoint.is_ip:
                continue  # refused by its feature
            if family(endpoint.host) != family(address):
                why = f"the kernel's NAT cannot send connections to {address} on to {endpoint.host}"
                yield Objection(refused(why), endpoint.field)
            elif ip_address(endpoint.host).is_loopback:
                why = "the kernel does not forward to a loopback address; give the endpoint's address on a network"
                yield Objection(refused(why), endpoint.field)
