"""keepalived's verdict on every feature: what IPVS in the kernel does, and what keepalived's checks add."""

from __future__ import annotations

from lbgen.engines.api import NATIVE, Verdict, VerdictTable, approximate, emulated, refused
from lbgen.engines.kernel import kernel_verdicts
from lbgen.plan.features import Feature

_ACCESS = refused("IPVS admits every client of a service; put a firewall in front of it")

_VERDICTS: dict[Feature, Verdict] = kernel_verdicts("IPVS") | {
    "listener.max_connections.l4": refused("IPVS limits the connections of an endpoint, not those of a service"),
    "listener.access": _ACCESS,
    "listener.address.dual_stack": refused("IPVS has services of IPv4 and of IPv6; use a listener for each"),
    "route.sources": refused("IPVS finds a service by address, port and protocol, not by the client's address"),
    "route.forward.split": emulated("one service with all targets' endpoints and combined weights"),
    "route.access": _ACCESS,
    "pool.balance.least_connections": NATIVE,
    "pool.balance.random": refused("IPVS has no random scheduler; use round_robin or source_hash"),
    "pool.backup": emulated("keepalived's sorry server, which serves when the checks of all other endpoints fail"),
    "pool.endpoint_names": refused("IPVS forwards to addresses, and keepalived does not resolve names"),
    "pool.health.active": NATIVE,
    "pool.health.passive": refused("IPVS does not count the failed connections of an endpoint in a row"),
    "pool.connections.max_per_endpoint": emulated("the upper threshold of a real server"),
    "pool.slow_start": refused("keepalived gives a restored endpoint its whole weight at once"),
    "access_log": refused("the kernel forwards packets and logs no connections"),
    "access_log.l4": approximate("IPVS logs no connections", {"access_log.l4": "log"}),
    "metrics": refused("IPVS in the kernel serves no requests"),
    "metrics.l4": refused("`lbgen agent` does not read the counters of IPVS; `ipvsadm -ln --stats` prints them"),
    "engines.forwarding.direct": emulated(
        "direct routing of IPVS (`lvs_method DR`): the balancer sends packets on unchanged, and each endpoint has the "
        "listener's address, as the scripts in direct/ set it"
    ),
}

SUPPORT = VerdictTable(_VERDICTS)
