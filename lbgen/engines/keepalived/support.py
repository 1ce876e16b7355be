"""keepalived's verdict on every feature: what IPVS in the kernel does, and what keepalived's checks add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import NATIVE, UNPORTABLE, Verdict, VerdictTable, approximate, emulated, refused

if TYPE_CHECKING:
    from lbgen.plan.features import Feature

_HTTP = refused("IPVS works at L4 and does not parse HTTP")
_TLS = refused("IPVS works at L4 and does not parse TLS")
_BYTES = refused("IPVS forwards packets and cannot add bytes to a connection")
_ACCESS = refused("IPVS admits every client of a service; put a firewall in front of it")

_VERDICTS: dict[Feature, Verdict] = {
    "": _HTTP,  # all that is not named below is of HTTP
    "listener.l4.tcp": NATIVE,
    "listener.l4.udp": emulated("a flow is a client's address and port, until it is silent for `timeouts.idle`"),
    "listener.tls": _TLS,
    "listener.proxy_protocol": _BYTES,
    "listener.max_connections.l4": refused("IPVS limits the connections of an endpoint, not those of a service"),
    "listener.access": _ACCESS,
    "listener.address.dual_stack": refused("IPVS has services of IPv4 and of IPv6; use a listener for each"),
    "route.priority": NATIVE,
    "match.sni": _TLS,
    "route.sources": refused("IPVS finds a service by address, port and protocol, not by the client's address"),
    "route.forward": NATIVE,
    "route.forward.request_headers": _HTTP,
    "route.forward.split": emulated("one service with all targets' endpoints and combined weights"),
    "route.access": _ACCESS,
    "timeouts.connect": approximate(
        "the kernel forwards the client's own handshake, so the client's connect timeout applies, not this one",
        {"timeouts.connect.l4": "open"},
    ),
    "timeouts.idle": approximate(
        "the kernel drops the state of an idle connection without closing it: the next packet of either side is reset",
        {"timeouts.idle.l4": "time"},
    ),
    "pool.balance.round_robin": NATIVE,
    "pool.balance.least_connections": NATIVE,
    "pool.balance.random": refused("IPVS has no random scheduler; use round_robin or source_hash"),
    "pool.balance.source_hash": NATIVE,
    "pool.weights": NATIVE,
    "pool.backup": emulated("keepalived's sorry server, which serves when the checks of all other endpoints fail"),
    "pool.endpoint_names": refused("IPVS forwards to addresses, and keepalived does not resolve names"),
    "pool.endpoint_ipv6": NATIVE,
    "pool.health.active": NATIVE,
    "pool.health.passive": refused("IPVS does not count the failed connections of an endpoint in a row"),
    "pool.connections.max_per_endpoint": emulated("the upper threshold of a real server"),
    "pool.connections.queue": refused("the kernel forwards or rejects a connection at once and cannot queue it"),
    "pool.slow_start": refused("keepalived gives a restored endpoint its whole weight at once"),
    "pool.tls": _TLS,
    "pool.proxy_protocol": _BYTES,
    "access_log": refused("the kernel forwards packets and logs no connections"),
    "access_log.l4": approximate("IPVS logs no connections", {"access_log.l4": "log"}),
    "metrics": refused("IPVS in the kernel serves no requests"),
    "metrics.l4": refused("`lbgen agent` does not read the counters of IPVS; `ipvsadm -ln --stats` prints them"),
    "engines.verbatim": UNPORTABLE,
    "engines.forwarding.direct": emulated(
        "direct routing of IPVS (`lvs_method DR`): the balancer sends packets on unchanged, and each endpoint has the "
        "listener's address, as the scripts in direct/ set it"
    ),
}

SUPPORT = VerdictTable(_VERDICTS)
