"""nftables' verdict on every feature."""

from __future__ import annotations

from lbgen.engines.api import NATIVE, UNPORTABLE, Verdict, approximate, emulated, refused
from lbgen.plan.features import Feature

_HTTP = refused("it works at L4 and does not parse HTTP")
_TLS = refused("it works at L4 and does not parse TLS")
_RESET = emulated("a connection that is not admitted is reset before it opens; a datagram is dropped")
_BYTES = refused("it forwards packets and cannot add bytes to a connection")

_AGENT = "`lbgen agent` checks the endpoints and loads the weights of those that are up in one transaction"

_LEAST = approximate(
    "`lbgen agent` counts open connections five times a second and shares new ones by these counts: several at once "
    "may go to the same endpoint",
    {"pool.balance.least_connections.open": "text: open connections"},
)

SUPPORT: dict[Feature, Verdict] = {
    Feature.L7: _HTTP,
    Feature.L4_TCP: NATIVE,
    Feature.L4_UDP: emulated("a flow is a client's address and port, until it is silent for `timeouts.idle`"),
    Feature.TLS_TERMINATE: _TLS,
    Feature.TLS_NO_SNI: _TLS,
    Feature.TLS_CLIENT_CERT: _TLS,
    Feature.TLS_PASSTHROUGH: _TLS,
    Feature.HTTP2: _HTTP,
    Feature.PROXY_PROTOCOL_IN: _BYTES,
    Feature.MAX_CONNECTIONS: _HTTP,
    Feature.L4_MAX_CONNECTIONS: emulated("a connection above the limit is reset at once"),
    Feature.LISTENER_ACCESS: _RESET,
    Feature.LISTENER_LIMITS: _HTTP,
    Feature.CLIENT_TIMEOUTS: _HTTP,
    Feature.TRUSTED_PROXIES: _HTTP,
    Feature.DUAL_STACK: refused("the kernel's NAT does not translate between IPv4 and IPv6; use a listener for each"),
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
    Feature.L4_SOURCES: NATIVE,
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
    Feature.SPLIT: emulated("one list of all targets' endpoints with combined weights"),
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
    Feature.ROUTE_ACCESS: _RESET,
    Feature.TIMEOUT_CONNECT: approximate(
        "the kernel forwards the client's own handshake, so the client's connect timeout applies, not this one",
        {"timeouts.connect.l4": "open"},
    ),
    Feature.TIMEOUT_RESPONSE: _HTTP,
    Feature.TIMEOUT_IDLE: approximate(
        "the kernel drops the state of an idle connection without closing it: the next packet of either side is reset",
        {"timeouts.idle.l4": "open"},
    ),
    Feature.TIMEOUT_REQUEST: _HTTP,
    Feature.RETRIES: _HTTP,
    Feature.RETRY_BUDGET: _HTTP,
    Feature.ROUND_ROBIN: NATIVE,
    Feature.LEAST_CONNECTIONS: _LEAST,
    Feature.LEAST_CONNECTIONS_WEIGHTED: emulated("`lbgen agent` divides the counts by the weights"),
    Feature.RANDOM: NATIVE,
    Feature.SOURCE_HASH: NATIVE,
    Feature.SOURCE_HASH_WEIGHTED: NATIVE,
    Feature.HASH: _HTTP,
    Feature.WEIGHTS: NATIVE,
    Feature.DRAIN: NATIVE,
    Feature.BACKUP: emulated("`lbgen agent` loads the backups when the last other endpoint is down"),
    Feature.ENDPOINT_NAMES: refused("rules contain addresses, and the kernel does not resolve names"),
    Feature.ENDPOINT_IPV6: NATIVE,
    Feature.HEALTH_ACTIVE: emulated(_AGENT),
    Feature.HEALTH_PASSIVE: refused(
        "the kernel forgets a connection that is refused at once, and its counters do not tell failures in a row; "
        "`health.active` finds such endpoints"
    ),
    Feature.KEEPALIVE: _HTTP,
    Feature.KEEPALIVE_IDLE: _HTTP,
    Feature.MAX_PER_ENDPOINT: emulated("a connection above the limit is reset at once"),
    Feature.QUEUE: refused("the kernel forwards or rejects a connection at once and cannot queue it"),
    Feature.SLOW_START: emulated("`lbgen agent` raises the weight of a restored endpoint in ten steps"),
    Feature.STICKY: _HTTP,
    Feature.POOL_TLS: _TLS,
    Feature.POOL_HTTP2: _HTTP,
    Feature.POOL_GRPC: _HTTP,
    Feature.PROXY_PROTOCOL_OUT: _BYTES,
    Feature.L4_PROXY_PROTOCOL_OUT: _BYTES,
    Feature.ACCESS_LOG: refused("the kernel logs packets, not connections with their duration and size"),
    Feature.METRICS: refused("rules in the kernel serve no requests"),
    Feature.METRICS_L4: refused(
        "the kernel counts connections when they begin (`lbgen stats`, `lbgen ps`), not their time and bytes"
    ),
    Feature.ESCAPE_HATCH: UNPORTABLE,
    Feature.DIRECT: emulated(
        "the balancer rewrites the destination of each packet (of MAC addresses with `device`, else of IP), and the "
        "rules in direct/, which each endpoint's host loads, rewrite the source of the replies"
    ),
}
