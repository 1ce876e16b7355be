"""nftables' verdict on every feature."""

from __future__ import annotations

from lbgen.engines.api import NATIVE, Verdict, VerdictTable, approximate, emulated, refused
from lbgen.engines.kernel import kernel_verdicts
from lbgen.plan.features import Feature

_RESET = emulated("a connection that is not admitted is reset before it opens; a datagram is dropped")

_AGENT = "`lbgen agent` checks the endpoints and loads the weights of those that are up in one transaction"

_LEAST = approximate(
    "`lbgen agent` counts open connections five times a second and shares new ones by these counts: several at once "
    "may go to the same endpoint",
    {"pool.balance.least_connections.open": "endpoint"},
)

_VERDICTS: dict[Feature, Verdict] = kernel_verdicts("it") | {
    "listener.max_connections.l4": emulated("a connection above the limit is reset at once"),
    "listener.access": _RESET,
    "listener.address.dual_stack": refused(
        "the kernel's NAT does not translate between IPv4 and IPv6; use a listener for each"
    ),
    "route.sources": NATIVE,
    "route.forward.split": emulated("one list of all targets' endpoints with combined weights"),
    "route.access": _RESET,
    "pool.balance.least_connections": _LEAST,
    "pool.balance.least_connections.weights": emulated("`lbgen agent` divides the counts by the weights"),
    "pool.balance.random": NATIVE,
    "pool.backup": emulated("`lbgen agent` loads the backups when the last other endpoint is down"),
    "pool.endpoint_names": refused("rules contain addresses, and the kernel does not resolve names"),
    "pool.health.active": emulated(_AGENT),
    "pool.health.passive": refused(
        "the kernel forgets a connection that is refused at once, and its counters do not tell failures in a row; "
        "`health.active` finds such endpoints"
    ),
    "pool.connections.max_per_endpoint": emulated("a connection above the limit is reset at once"),
    "pool.slow_start": emulated("`lbgen agent` raises the weight of a restored endpoint in ten steps"),
    "access_log": refused("the kernel logs packets, not connections with their duration and size"),
    "access_log.l4": approximate(
        "the kernel logs no connections; `lbgen stats` and `lbgen ps` count them", {"access_log.l4": "log"}
    ),
    "metrics": refused("rules in the kernel serve no requests"),
    "metrics.l4": refused(
        "the kernel counts connections when they begin (`lbgen stats`, `lbgen ps`), not their time and bytes"
    ),
    "engines.forwarding.direct": emulated(
        "the balancer rewrites the destination of each packet (of MAC addresses with `device`, else of IP), and the "
        "rules in direct/, which each endpoint's host loads, rewrite the source of the replies"
    ),
}

SUPPORT = VerdictTable(_VERDICTS)
