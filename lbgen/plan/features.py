"""Every feature of the contract by name; each engine answers each with a verdict."""

from __future__ import annotations

from enum import StrEnum

from lbgen.plan.conditions import FEATURES


class Feature(StrEnum):
    """A feature that a topology can use, named as in `--accept` and reports; sections are those of the contract."""

    _ignore_ = "_members _name"

    # section 1 and 7: listeners
    L7 = "listener.l7"
    L4_TCP = "listener.l4.tcp"
    L4_UDP = "listener.l4.udp"
    TLS_TERMINATE = "listener.tls"
    TLS_NO_SNI = "listener.tls.no_sni"  # clients that send no server name
    TLS_CLIENT_CERT = "listener.tls.client"
    TLS_CURVES = "listener.tls.curves"
    TLS_PASSTHROUGH = "listener.tls.passthrough"
    HTTP2 = "listener.http2"
    PROXY_PROTOCOL_IN = "listener.proxy_protocol"
    MAX_CONNECTIONS = "listener.max_connections"
    L4_MAX_CONNECTIONS = "listener.max_connections.l4"
    LISTENER_ACCESS = "listener.access"
    LISTENER_LIMITS = "listener.limits"
    CLIENT_TIMEOUTS = "listener.timeouts"
    TRUSTED_PROXIES = "listener.trusted_proxies"
    DUAL_STACK = "listener.address.dual_stack"
    # section 2: matching
    HOST_EXACT = "match.host"
    HOST_WILDCARD = "match.host.wildcard"
    _members = vars()  # as the manual of `enum` does it
    for _name in FEATURES.values():
        _members[_name.upper().replace(".", "_")] = _name
    PRIORITY = "route.priority"
    L4_SNI = "match.sni"
    L4_SOURCES = "route.sources"
    # section 3: paths
    PATHS_STRICT = "paths.strict"
    PATHS_ALLOW = "paths.allow"
    PATHS_NORMALIZE = "paths.normalize"
    PATHS_VERBATIM = "paths.verbatim"
    # section 4: what reaches whom
    FRAMING = "framing"  # what a client could use to bypass a rule
    MALFORMED = "framing.malformed"  # malformed requests: answered in another way, or passed on in one safe reading
    HOP_BY_HOP = "headers.hop_by_hop"  # the fixed list of RFC 9110 7.6.1
    CONNECTION_NOMINATED = "headers.connection_nominated"  # what a Connection header names
    UNDERSCORES_DROP = "headers_with_underscores.drop"
    UNDERSCORES_PASS = "headers_with_underscores.pass"  # noqa: S105  # a word of the field
    FORWARDED_HEADERS = "forwarded_headers"
    REQUEST_ID = "request_id"
    REQUEST_HEADERS_SET = "route.request_headers.set"
    REQUEST_HEADERS_ADD = "route.request_headers.add"
    REQUEST_HEADERS_REMOVE = "route.request_headers.remove"
    RESPONSE_HEADERS_SET = "route.response_headers.set"
    RESPONSE_HEADERS_ADD = "route.response_headers.add"
    RESPONSE_HEADERS_REMOVE = "route.response_headers.remove"
    FORWARD = "route.forward"
    SPLIT = "route.forward.split"
    SPLIT_HEADERS = "route.forward.request_headers"
    REDIRECT = "route.redirect"
    RESPOND = "route.respond"
    REWRITE_PREFIX = "route.rewrite.prefix"
    REWRITE_PATH = "route.rewrite.path"
    REWRITE_HOST = "route.rewrite.host"
    MIRROR = "route.mirror"
    CORS = "route.cors"
    COMPRESSION = "route.compression"
    BUFFERING = "route.buffering"
    WEBSOCKET = "route.websocket"
    # section 5 and 6: limits, time, retries
    STATUSES = "statuses"  # refusals: malformed, denied, over a limit, without a route
    FAILURES = "statuses.failures"  # answers where an endpoint failed
    RATE_LIMIT = "route.rate_limit"
    CONCURRENCY = "route.concurrency"
    MAX_BODY = "route.max_body"
    ROUTE_ACCESS = "route.access"
    TIMEOUT_CONNECT = "timeouts.connect"
    TIMEOUT_RESPONSE = "timeouts.response"
    TIMEOUT_IDLE = "timeouts.idle"
    TIMEOUT_REQUEST = "timeouts.request"
    RETRIES = "route.retries"
    RETRY_BUDGET = "route.retries.budget"
    # pools
    ROUND_ROBIN = "pool.balance.round_robin"
    LEAST_CONNECTIONS = "pool.balance.least_connections"
    LEAST_CONNECTIONS_WEIGHTED = "pool.balance.least_connections.weights"
    RANDOM = "pool.balance.random"
    SOURCE_HASH = "pool.balance.source_hash"
    SOURCE_HASH_WEIGHTED = "pool.balance.source_hash.weights"
    HASH = "pool.balance.hash"
    WEIGHTS = "pool.weights"
    DRAIN = "pool.weights.zero"
    BACKUP = "pool.backup"
    ENDPOINT_NAMES = "pool.endpoint_names"
    ENDPOINT_IPV6 = "pool.endpoint_ipv6"
    HEALTH_ACTIVE = "pool.health.active"
    HEALTH_PASSIVE = "pool.health.passive"
    KEEPALIVE = "pool.connections.keepalive"
    KEEPALIVE_IDLE = "pool.connections.keepalive_idle"
    MAX_PER_ENDPOINT = "pool.connections.max_per_endpoint"
    QUEUE = "pool.connections.queue"
    SLOW_START = "pool.slow_start"
    STICKY = "pool.sticky"
    POOL_TLS = "pool.tls"
    POOL_HTTP2 = "pool.protocol.http2"
    POOL_GRPC = "pool.protocol.grpc"
    PROXY_PROTOCOL_OUT = "pool.proxy_protocol"
    L4_PROXY_PROTOCOL_OUT = "pool.proxy_protocol.l4"
    # section 8 and 10
    ACCESS_LOG = "access_log"
    ACCESS_LOG_L4 = "access_log.l4"  # connections of L4 listeners over TCP
    METRICS = "metrics"
    METRICS_L4 = "metrics.l4"  # connections of L4 listeners, and their bytes
    ESCAPE_HATCH = "engines.verbatim"
    DIRECT = "engines.forwarding.direct"  # replies bypass the balancer
