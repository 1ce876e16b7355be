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
    {"pool.balance.least_connections.open": "endpoint"},
)

SUPPORT: dict[Feature, Verdict] = {
    **dict.fromkeys(Feature, _HTTP),  # all that is not named below is of HTTP
    Feature.L4_TCP: NATIVE,
    Feature.L4_UDP: emulated("a flow is a client's address and port, until it is silent for `timeouts.idle`"),
    Feature.TLS_TERMINATE: _TLS,
    Feature.TLS_NO_SNI: _TLS,
    Feature.TLS_CLIENT_CERT: _TLS,
    Feature.TLS_PASSTHROUGH: _TLS,
    Feature.TLS_CURVES: _TLS,
    Feature.PROXY_PROTOCOL_IN: _BYTES,
    Feature.L4_MAX_CONNECTIONS: emulated("a connection above the limit is reset at once"),
    Feature.LISTENER_ACCESS: _RESET,
    Feature.DUAL_STACK: refused("the kernel's NAT does not translate between IPv4 and IPv6; use a listener for each"),
    Feature.PRIORITY: NATIVE,
    Feature.L4_SNI: _TLS,
    Feature.L4_SOURCES: NATIVE,
    Feature.FORWARD: NATIVE,
    Feature.SPLIT: emulated("one list of all targets' endpoints with combined weights"),
    Feature.ROUTE_ACCESS: _RESET,
    Feature.TIMEOUT_CONNECT: approximate(
        "the kernel forwards the client's own handshake, so the client's connect timeout applies, not this one",
        {"timeouts.connect.l4": "open"},
    ),
    Feature.TIMEOUT_IDLE: approximate(
        "the kernel drops the state of an idle connection without closing it: the next packet of either side is reset",
        {"timeouts.idle.l4": "time"},
    ),
    Feature.ROUND_ROBIN: NATIVE,
    Feature.LEAST_CONNECTIONS: _LEAST,
    Feature.LEAST_CONNECTIONS_WEIGHTED: emulated("`lbgen agent` divides the counts by the weights"),
    Feature.RANDOM: NATIVE,
    Feature.SOURCE_HASH: NATIVE,
    Feature.SOURCE_HASH_WEIGHTED: NATIVE,
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
    Feature.MAX_PER_ENDPOINT: emulated("a connection above the limit is reset at once"),
    Feature.QUEUE: refused("the kernel forwards or rejects a connection at once and cannot queue it"),
    Feature.SLOW_START: emulated("`lbgen agent` raises the weight of a restored endpoint in ten steps"),
    Feature.POOL_TLS: _TLS,
    Feature.PROXY_PROTOCOL_OUT: _BYTES,
    Feature.L4_PROXY_PROTOCOL_OUT: _BYTES,
    Feature.ACCESS_LOG: refused("the kernel logs packets, not connections with their duration and size"),
    Feature.ACCESS_LOG_L4: approximate(
        "the kernel logs no connections; `lbgen stats` and `lbgen ps` count them", {"access_log.l4": "log"}
    ),
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
