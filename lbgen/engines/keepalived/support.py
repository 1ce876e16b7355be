"""keepalived's verdict on every feature: what IPVS in the kernel does, and what keepalived's checks add."""

from __future__ import annotations

from lbgen.engines.api import NATIVE, UNPORTABLE, Verdict, approximate, emulated, refused
from lbgen.plan.features import Feature

_HTTP = refused("IPVS works at L4 and does not parse HTTP")
_TLS = refused("IPVS works at L4 and does not parse TLS")
_BYTES = refused("IPVS forwards packets and cannot add bytes to a connection")
_ACCESS = refused("IPVS admits every client of a service; put a firewall in front of it")

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
    Feature.L4_MAX_CONNECTIONS: refused("IPVS limits the connections of an endpoint, not those of a service"),
    Feature.LISTENER_ACCESS: _ACCESS,
    Feature.DUAL_STACK: refused("IPVS has services of IPv4 and of IPv6; use a listener for each"),
    Feature.PRIORITY: NATIVE,
    Feature.L4_SNI: _TLS,
    Feature.L4_SOURCES: refused("IPVS finds a service by address, port and protocol, not by the client's address"),
    Feature.FORWARD: NATIVE,
    Feature.SPLIT: emulated("one service with all targets' endpoints and combined weights"),
    Feature.ROUTE_ACCESS: _ACCESS,
    Feature.TIMEOUT_CONNECT: approximate(
        "the kernel forwards the client's own handshake, so the client's connect timeout applies, not this one",
        {"timeouts.connect.l4": "open"},
    ),
    Feature.TIMEOUT_IDLE: approximate(
        "the kernel drops the state of an idle connection without closing it: the next packet of either side is reset",
        {"timeouts.idle.l4": "time"},
    ),
    Feature.ROUND_ROBIN: NATIVE,
    Feature.LEAST_CONNECTIONS: NATIVE,
    Feature.LEAST_CONNECTIONS_WEIGHTED: NATIVE,
    Feature.RANDOM: refused("IPVS has no random scheduler; use round_robin or source_hash"),
    Feature.SOURCE_HASH: NATIVE,
    Feature.SOURCE_HASH_WEIGHTED: NATIVE,
    Feature.WEIGHTS: NATIVE,
    Feature.DRAIN: NATIVE,
    Feature.BACKUP: emulated("keepalived's sorry server, which serves when the checks of all other endpoints fail"),
    Feature.ENDPOINT_NAMES: refused("IPVS forwards to addresses, and keepalived does not resolve names"),
    Feature.ENDPOINT_IPV6: NATIVE,
    Feature.HEALTH_ACTIVE: NATIVE,
    Feature.HEALTH_PASSIVE: refused("IPVS does not count the failed connections of an endpoint in a row"),
    Feature.MAX_PER_ENDPOINT: emulated("the upper threshold of a real server"),
    Feature.QUEUE: refused("the kernel forwards or rejects a connection at once and cannot queue it"),
    Feature.SLOW_START: refused("keepalived gives a restored endpoint its whole weight at once"),
    Feature.POOL_TLS: _TLS,
    Feature.PROXY_PROTOCOL_OUT: _BYTES,
    Feature.L4_PROXY_PROTOCOL_OUT: _BYTES,
    Feature.ACCESS_LOG: refused("the kernel forwards packets and logs no connections"),
    Feature.ACCESS_LOG_L4: approximate("IPVS logs no connections", {"access_log.l4": "log"}),
    Feature.METRICS: refused("IPVS in the kernel serves no requests"),
    Feature.METRICS_L4: refused("`lbgen agent` does not read the counters of IPVS; `ipvsadm -ln --stats` prints them"),
    Feature.ESCAPE_HATCH: UNPORTABLE,
    Feature.DIRECT: emulated(
        "direct routing of IPVS (`lvs_method DR`): the balancer sends packets on unchanged, and each endpoint has the "
        "listener's address, as the scripts in direct/ set it"
    ),
}
