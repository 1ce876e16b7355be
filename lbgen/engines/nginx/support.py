"""Every feature of the contract -> what nginx makes of it, by version."""

from __future__ import annotations

from lbgen.engines.api import NATIVE, NOT_YET, Verdict, approximate, emulated, refused
from lbgen.plan.features import Feature as F

NEW, OLD = "1.31", "1.22"

_MAPS = emulated("locations for paths, and maps of regexes that choose among the rules of one location")
_RAW_QUERY = emulated("regexes over the raw query, since nginx's own $arg_ variables ignore case and decode nothing")
_RAW_COOKIE = emulated("regexes over the raw Cookie header, since nginx's own $cookie_ variables ignore case")
_ONE_LINE = approximate("of a header sent on several lines nginx 1.22 sees the first line only")
_OLD_ADD = approximate("of a header that the client sends on several lines nginx 1.22 keeps the first line only")
_NO_UDP = NOT_YET

_COMMON: dict[F, Verdict] = {
    F.L7: NATIVE,
    F.L4_TCP: NATIVE,
    F.L4_UDP: _NO_UDP,
    F.TLS_TERMINATE: NOT_YET,
    F.TLS_CLIENT_CERT: NOT_YET,
    F.TLS_PASSTHROUGH: NOT_YET,
    F.HTTP2: NOT_YET,
    F.PROXY_PROTOCOL_IN: NOT_YET,
    F.MAX_CONNECTIONS: NOT_YET,
    F.LISTENER_ACCESS: NOT_YET,
    F.LISTENER_LIMITS: NOT_YET,
    F.CLIENT_TIMEOUTS: NATIVE,
    F.TRUSTED_PROXIES: emulated("a geo block for the trusted networks and a map for each header"),
    F.DUAL_STACK: emulated("one socket for IPv4 and one for IPv6"),
    F.HOST_EXACT: NATIVE,
    F.HOST_WILDCARD: NATIVE,
    F.PATH_EXACT: NATIVE,
    F.PATH_PREFIX: emulated("two locations, one for the path alone and one for what lies below"),
    F.PATH_REGEX: _MAPS,
    F.METHOD: _MAPS,
    F.HEADER: _MAPS,
    F.HEADER_REGEX: _MAPS,
    F.HEADER_PRESENT: _MAPS,
    F.QUERY: _RAW_QUERY,
    F.QUERY_REGEX: _RAW_QUERY,
    F.QUERY_PRESENT: _RAW_QUERY,
    F.COOKIE: _RAW_COOKIE,
    F.COOKIE_REGEX: _RAW_COOKIE,
    F.COOKIE_PRESENT: _RAW_COOKIE,
    F.PRIORITY: emulated("the order of the rules is worked out beforehand"),
    F.L4_SNI: NOT_YET,
    F.L4_SOURCES: NOT_YET,
    F.PATHS_STRICT: emulated("a regex over the request line, tested before any location"),
    F.PATHS_ALLOW: NOT_YET,
    F.PATHS_NORMALIZE: NOT_YET,
    F.PATHS_VERBATIM: NOT_YET,
    F.FRAMING: approximate(
        "lines that end with a bare LF and control characters in header values are accepted, and HTTP/0.9 gets the text "
        "Bad Request without a head"
    ),
    F.HOP_BY_HOP: NATIVE,
    F.CONNECTION_NOMINATED: approximate(
        "a request whose Connection header names anything but the standard hop-by-hop fields is answered with 400 "
        "instead of being forwarded without the fields it names"
    ),
    F.FORWARDED_HEADERS: NATIVE,
    F.REQUEST_ID: NATIVE,
    F.REQUEST_HEADERS_SET: NATIVE,
    F.REQUEST_HEADERS_ADD: emulated("the header is written anew: the client's value, then the added line"),
    F.REQUEST_HEADERS_REMOVE: NATIVE,
    F.RESPONSE_HEADERS_SET: emulated("the endpoint's header is hidden and a new one added"),
    F.RESPONSE_HEADERS_ADD: NATIVE,
    F.RESPONSE_HEADERS_REMOVE: NATIVE,
    F.FORWARD: NATIVE,
    F.SPLIT: emulated("a random choice for each request, in steps of 0.01 %"),
    F.SPLIT_HEADERS: emulated("a map from the chosen pool to the header's value"),
    F.REDIRECT: NATIVE,
    F.RESPOND: NATIVE,
    F.REWRITE_PREFIX: emulated("a map over the raw target, since nginx's own rewriting decodes it"),
    F.REWRITE_PATH: NATIVE,
    F.REWRITE_HOST: NATIVE,
    F.MIRROR: NOT_YET,
    F.CORS: NOT_YET,
    F.COMPRESSION: NOT_YET,
    F.BUFFERING: NOT_YET,
    F.WEBSOCKET: NATIVE,
    F.STATUSES: emulated(
        "error pages hold the texts; answers that nginx makes carry `Server: nginx`, as do those of endpoints that send "
        "no Server header"
    ),
    F.RATE_LIMIT: NOT_YET,
    F.CONCURRENCY: NOT_YET,
    F.MAX_BODY: NOT_YET,
    F.ROUTE_ACCESS: NOT_YET,
    F.TIMEOUT_CONNECT: NATIVE,
    F.TIMEOUT_RESPONSE: NATIVE,
    F.TIMEOUT_IDLE: NATIVE,
    F.TIMEOUT_REQUEST: refused("nginx has no limit on the whole time of a request"),
    F.RETRIES: NOT_YET,
    F.RETRY_BUDGET: refused("nginx does not count retries against requests"),
    F.ROUND_ROBIN: NATIVE,
    F.LEAST_CONNECTIONS: NATIVE,
    F.LEAST_CONNECTIONS_WEIGHTED: NATIVE,
    F.RANDOM: NOT_YET,
    F.SOURCE_HASH: NATIVE,
    F.SOURCE_HASH_WEIGHTED: NATIVE,
    F.HASH: NOT_YET,
    F.WEIGHTS: NATIVE,
    F.DRAIN: NATIVE,
    F.BACKUP: NOT_YET,
    F.ENDPOINT_NAMES: NATIVE,
    F.ENDPOINT_IPV6: NATIVE,
    F.HEALTH_ACTIVE: NOT_YET,
    F.HEALTH_PASSIVE: NOT_YET,
    F.KEEPALIVE: NATIVE,
    F.MAX_PER_ENDPOINT: NOT_YET,
    F.QUEUE: refused("the free nginx does not let requests wait for an endpoint"),
    F.SLOW_START: refused("the free nginx has no slow start"),
    F.STICKY: NOT_YET,
    F.POOL_TLS: NOT_YET,
    F.POOL_HTTP2: NOT_YET,
    F.POOL_GRPC: NOT_YET,
    F.PROXY_PROTOCOL_OUT: NOT_YET,
    F.ACCESS_LOG: NOT_YET,
    F.ESCAPE_HATCH: NOT_YET,
    F.NFT_DIRECT: refused("direct forwarding is nftables' alone"),
}

SUPPORT: dict[str, dict[F, Verdict]] = {
    NEW: _COMMON,
    OLD: _COMMON
    | {
        F.HEADER: _ONE_LINE,
        F.HEADER_REGEX: _ONE_LINE,
        F.HEADER_PRESENT: _ONE_LINE,
        F.REQUEST_HEADERS_ADD: _OLD_ADD,
        F.ENDPOINT_NAMES: refused("nginx resolves names while it runs from 1.27.3 on"),
    },
}
