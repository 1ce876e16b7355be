"""Every feature of the contract by name; each engine answers each with a verdict."""

from __future__ import annotations

from collections.abc import Iterable

from lbgen.plan.conditions import FEATURES

Feature = str
"""A feature that a topology can use, named as in `--accept` and reports."""

ALL_FEATURES: tuple[Feature, ...] = (
    # section 1 and 7: listeners
    "listener.l7",
    "listener.l4.tcp",
    "listener.l4.udp",
    "listener.tls",
    "listener.tls.no_sni",  # clients that send no server name
    "listener.tls.client",
    "listener.tls.curves",
    "listener.tls.passthrough",
    "listener.http2",
    "listener.proxy_protocol",
    "listener.max_connections",
    "listener.max_connections.l4",
    "listener.access",
    "listener.limits",
    "listener.timeouts",
    "listener.trusted_proxies",
    "listener.address.dual_stack",
    # section 2: matching
    "match.host",
    "match.host.wildcard",
    *FEATURES.values(),
    "route.priority",
    "match.sni",
    "route.sources",
    # section 3: paths
    "paths.strict",
    "paths.allow",
    "paths.normalize",
    "paths.verbatim",
    # section 4: what reaches whom
    "framing",  # what a client could use to bypass a rule
    "framing.malformed",  # malformed requests: answered in another way, or passed on in one safe reading
    "headers.hop_by_hop",  # the fixed list of RFC 9110 7.6.1
    "headers.connection_nominated",  # what a Connection header names
    "headers_with_underscores.drop",
    "headers_with_underscores.pass",
    "forwarded_headers",
    "request_id",
    "route.request_headers.set",
    "route.request_headers.add",
    "route.request_headers.remove",
    "route.response_headers.set",
    "route.response_headers.add",
    "route.response_headers.remove",
    "route.forward",
    "route.forward.split",
    "route.forward.request_headers",
    "route.redirect",
    "route.respond",
    "route.rewrite.prefix",
    "route.rewrite.path",
    "route.rewrite.host",
    "route.mirror",
    "route.cors",
    "route.compression",
    "route.buffering",
    "route.websocket",
    # section 5 and 6: limits, time, retries
    "statuses",  # refusals: malformed, denied, over a limit, without a route
    "statuses.failures",  # answers where an endpoint failed
    "route.rate_limit",
    "route.concurrency",
    "route.max_body",
    "route.access",
    "timeouts.connect",
    "timeouts.response",
    "timeouts.idle",
    "timeouts.request",
    "route.retries",
    "route.retries.budget",
    # pools
    "pool.balance.round_robin",
    "pool.balance.least_connections",
    "pool.balance.least_connections.weights",
    "pool.balance.random",
    "pool.balance.source_hash",
    "pool.balance.source_hash.weights",
    "pool.balance.hash",
    "pool.weights",
    "pool.weights.zero",
    "pool.backup",
    "pool.endpoint_names",
    "pool.endpoint_ipv6",
    "pool.health.active",
    "pool.health.passive",
    "pool.connections.keepalive",
    "pool.connections.keepalive_idle",
    "pool.connections.max_per_endpoint",
    "pool.connections.queue",
    "pool.slow_start",
    "pool.sticky",
    "pool.tls",
    "pool.protocol.http2",
    "pool.protocol.grpc",
    "pool.proxy_protocol",
    "pool.proxy_protocol.l4",
    # section 8 and 10
    "access_log",
    "access_log.l4",  # connections of L4 listeners over TCP
    "metrics",
    "metrics.l4",  # connections of L4 listeners, and their bytes
    "engines.verbatim",
    "engines.forwarding.direct",  # replies bypass the balancer
)
"""In the order of reports; sections are those of the contract."""


_KNOWN = frozenset(ALL_FEATURES)


def check_feature(name: Feature) -> Feature:
    """`name`; ValueError where there is no such feature, as of one that is misspelt in lbgen."""
    if name not in _KNOWN:
        raise ValueError(f"there is no feature {name!r}")
    return name


def check_names(names: Iterable[str]) -> None:
    """ValueError for a name that neither is nor begins that of a feature; the empty one begins all."""
    for name in names:
        if name and not any(f"{each}.".startswith(f"{name}.") for each in ALL_FEATURES):
            raise ValueError(f"no feature has a name like {name!r}")
