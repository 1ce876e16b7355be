"""Verdicts of Envoy on every feature."""

from __future__ import annotations

from lbgen.engines.api import NATIVE, UNPORTABLE, Verdict, approximate, emulated, refused
from lbgen.plan.features import Feature
from lbgen.plan.guarantees import Guarantee

_SECOND = "text: the second request reached an endpoint"  # where another parser sees only one request
_SORTED = emulated("rules are written in order of precedence, and each host's table includes those of wider hosts")
_ANCHORED = emulated("a regex for lists and repeated lines, which ignores whether a space follows a comma")
_DECODED = emulated("compared by a regex over the percent-encoded value; a broken escape matches no regex")
_EDITS = emulated("the edits of a route and its target are merged into one list per target")

_V1_40: dict[Feature, Verdict] = {
    Feature.L7: NATIVE,
    Feature.L4_TCP: NATIVE,
    Feature.L4_UDP: NATIVE,
    Feature.TRUSTED_PROXIES: emulated(
        "header filters that are skipped by the address of the TCP peer; an X-Forwarded-For list in several lines or "
        "with irregular commas is written anew, its elements joined by `, ` and empty ones dropped"
    ),
    Feature.DUAL_STACK: NATIVE,
    Feature.HOST_EXACT: NATIVE,
    Feature.HOST_WILDCARD: NATIVE,
    Feature.PATH_EXACT: NATIVE,
    Feature.PATH_PREFIX: NATIVE,
    Feature.PATH_REGEX: NATIVE,
    Feature.METHOD: NATIVE,
    Feature.HEADER: _ANCHORED,
    Feature.HEADER_REGEX: _ANCHORED,
    Feature.HEADER_PRESENT: _ANCHORED,
    Feature.QUERY: _DECODED,
    Feature.QUERY_REGEX: _DECODED,
    Feature.QUERY_PRESENT: NATIVE,
    Feature.COOKIE: NATIVE,
    Feature.COOKIE_REGEX: NATIVE,
    Feature.COOKIE_PRESENT: NATIVE,
    Feature.PRIORITY: _SORTED,
    Feature.PATHS_STRICT: emulated("an RBAC filter, skipped for a target that matches one regex"),
    Feature.FRAMING: emulated("an RBAC filter beside Envoy's own parser"),
    Feature.MALFORMED: approximate(
        "ambiguous lengths and codings are refused, but bare LF, folded headers, HTTP/0.9, odd versions and further "
        "blanks or tabs in the request line are read leniently and passed on in clean form, as is a bare CR in a "
        "header; user information in a target is dropped; several equal lengths are refused; a target in absolute "
        "form, and :authority in HTTP/2, win over a Host that disagrees; a Connection header that names over ten "
        "headers gets 400; over HTTP/2 a head above `limits.headers` gets a reset stream instead of 431; where other "
        "causes are retried as well, a failed connection is not tried again for a body without a length once over 16 "
        "KiB of it have come; a response that its endpoint resets, where it has neither a length nor chunks, looks "
        "complete",
        {
            "framing.malformed.reset_until_close": "text: the body is complete",
            "framing.malformed.unsized_connect": "status 504",
            "framing.malformed.bare_lf": "accepted",
            "framing.malformed.h2_limit": "text: None RST_STREAM",
            "framing.malformed.folded": "accepted",
            "framing.malformed.bare_cr": _SECOND,
            "framing.malformed.h2_frames": ("text: two hosts", "text: 1 of these requests"),
            "framing.malformed.http09": "accepted",
            "framing.malformed.no_version": "accepted",
            "framing.malformed.version": "accepted",
            "framing.malformed.absolute_host": ("status 404", "text: expected 400 (the target's host"),
            "framing.malformed.absolute_port": "accepted",
            "framing.malformed.nominated": "status 400",
            "framing.malformed.request_line": "accepted",
            "framing.malformed.trailing_blank": "accepted",
            "framing.malformed.user_information": "accepted",
            "framing.malformed.equal_lengths": "status 400",
        },
    ),
    Feature.HOP_BY_HOP: NATIVE,
    Feature.CONNECTION_NOMINATED: NATIVE,
    Feature.UNDERSCORES_DROP: NATIVE,
    Feature.UNDERSCORES_PASS: NATIVE,
    Feature.FORWARDED_HEADERS: emulated("header mutations before routing, or filters where a peer is trusted"),
    Feature.REQUEST_ID: emulated("a header mutation before routing, or a filter where a peer is trusted"),
    Feature.REQUEST_HEADERS_SET: _EDITS,
    Feature.REQUEST_HEADERS_ADD: _EDITS,
    Feature.REQUEST_HEADERS_REMOVE: _EDITS,
    Feature.RESPONSE_HEADERS_SET: NATIVE,
    Feature.RESPONSE_HEADERS_ADD: NATIVE,
    Feature.RESPONSE_HEADERS_REMOVE: NATIVE,
    Feature.FORWARD: NATIVE,
    Feature.SPLIT: NATIVE,
    Feature.SPLIT_HEADERS: _EDITS,
    Feature.REDIRECT: NATIVE,
    Feature.RESPOND: NATIVE,
    Feature.REWRITE_PREFIX: emulated("by a regex where the new prefix is `/` or the old one has escapes"),
    Feature.REWRITE_PATH: NATIVE,
    Feature.REWRITE_HOST: NATIVE,
    Feature.WEBSOCKET: emulated(
        "a trailing space: Envoy drops the body of a 200 that declines exactly `websocket`; it closes the client's "
        "connection after a declined handshake"
    ),
    Feature.STATUSES: emulated("local reply mappers by the cause"),
    Feature.FAILURES: emulated("local reply mappers by the cause"),
    Feature.TIMEOUT_CONNECT: emulated("one cluster for each connect timeout of a pool"),
    Feature.TIMEOUT_RESPONSE: emulated("the timeout of a single try, which ends with the response head"),
    Feature.ROUND_ROBIN: NATIVE,
    Feature.TIMEOUT_IDLE: emulated(
        "timers of Envoy; a client that asked to close its connection loses the rest of a response of which it takes "
        "nothing for a second, or for 5 % of the listener's shortest timeout where that is less; over HTTP/2 the end "
        "of a response that waits for its client is lost after the longest idle time of the listener's routes, or its "
        "client_header or client_body where that is longer, whether the client takes some or nothing"
    ),
    Feature.LEAST_CONNECTIONS: emulated("requests under way are counted in place of connections"),
    Feature.LEAST_CONNECTIONS_WEIGHTED: emulated("requests under way divide an endpoint's weight"),
    Feature.SOURCE_HASH: NATIVE,
    Feature.SOURCE_HASH_WEIGHTED: NATIVE,
    Feature.WEIGHTS: NATIVE,
    Feature.DRAIN: emulated("the endpoint is marked as draining"),
    Feature.ENDPOINT_NAMES: NATIVE,
    Feature.ENDPOINT_IPV6: NATIVE,
    Feature.KEEPALIVE: emulated("idle connections are kept without a count; 0 closes each after its request"),
    Feature.KEEPALIVE_IDLE: NATIVE,
    Feature.TLS_NO_SNI: NATIVE,
    Feature.TLS_TERMINATE: emulated("connections are matched by a regex for the server names of the certificates"),
    Feature.TLS_CLIENT_CERT: emulated("no session is resumed, so that every handshake shows the certificate"),
    Feature.TLS_PASSTHROUGH: NATIVE,
    Feature.HTTP2: NATIVE,
    Feature.PROXY_PROTOCOL_IN: NATIVE,
    Feature.MAX_CONNECTIONS: NATIVE,
    Feature.L4_MAX_CONNECTIONS: NATIVE,
    Feature.LISTENER_ACCESS: emulated("an RBAC filter; behind proxies X-Forwarded-For is read from the right"),
    Feature.LISTENER_LIMITS: emulated("a CEL condition for the target; Envoy's own limit of heads, in whole KiB"),
    Feature.CLIENT_TIMEOUTS: emulated(
        "timers of Envoy, which reads nothing in the last second before it closes an idle connection, or for 5 % of "
        "the listener's shortest timeout where that is less"
    ),
    Feature.L4_SNI: NATIVE,
    Feature.L4_SOURCES: NATIVE,
    Feature.PATHS_ALLOW: emulated("the same RBAC filter with a wider regex"),
    Feature.PATHS_NORMALIZE: emulated("a Lua filter that runs only for targets not in normal form"),
    Feature.PATHS_VERBATIM: emulated(
        "the same RBAC filter with a regex for the URI set, and a Lua filter for paths with `..` segments"
    ),
    Feature.MIRROR: NATIVE,
    Feature.CORS: emulated("routes of their own for preflights and for requests of allowed origins"),
    Feature.COMPRESSION: emulated(
        "a compressor that is skipped where an answer has no type; `Accept-Encoding: *` asks for gzip too, and where "
        "`identity` has the higher weight, or gzip is in capitals, nothing is compressed; a response that could have "
        "been has `Vary` too"
    ),
    Feature.BUFFERING: emulated("a filter that holds a body in memory and on disk"),
    Feature.RATE_LIMIT: emulated(
        "one filter with the buckets of all routes, which counts the first line of a key's header; Lua for a "
        "route on several listeners"
    ),
    Feature.MAX_PER_ENDPOINT: emulated("a Lua filter that picks an endpoint with a free slot by its own balancing"),
    Feature.QUEUE: emulated("a request looks for a free slot every few milliseconds until its timeout"),
    Feature.CONCURRENCY: emulated("a Lua filter that counts in memory shared by all workers"),
    Feature.MAX_BODY: emulated("one filter for each size, which routes enable"),
    Feature.ROUTE_ACCESS: emulated("an RBAC filter that routes enable"),
    Feature.TIMEOUT_REQUEST: NATIVE,
    Feature.RETRIES: emulated("one route for idempotent methods and one for the others"),
    Feature.RETRY_BUDGET: NATIVE,
    Feature.RANDOM: emulated("with weights, random entries of a Maglev table"),
    Feature.HASH: NATIVE,
    Feature.BACKUP: emulated("a second priority, used only when all of the first is down"),
    Feature.HEALTH_ACTIVE: emulated("Envoy's own checks, which read the whole response within `timeout`"),
    Feature.HEALTH_PASSIVE: NATIVE,  # all workers see an ejection about 1 ms later
    Feature.SLOW_START: NATIVE,
    Feature.STICKY: emulated("a Lua filter that maps an id to the address for Envoy's own session filter, and back"),
    Feature.POOL_TLS: NATIVE,
    Feature.POOL_HTTP2: NATIVE,
    Feature.POOL_GRPC: NATIVE,
    Feature.PROXY_PROTOCOL_OUT: NATIVE,
    Feature.L4_PROXY_PROTOCOL_OUT: NATIVE,
    Feature.ACCESS_LOG: NATIVE,
    Feature.METRICS: emulated("`lbgen agent` counts the lines of a second log"),
    Feature.METRICS_L4: emulated("`lbgen agent` counts the lines of a log of connections"),
    Feature.ESCAPE_HATCH: UNPORTABLE,
    Feature.DIRECT: refused("is not there: it forwards bytes itself, so replies come back through it"),
}


# What Envoy does where a clause is left to it.
HABITS = {
    Guarantee.PATHS: "dot segments, empty segments, backslashes and escapes of unreserved characters are resolved "
    "before routing and forwarded so, characters that a URI has only as escapes become escapes; an escaped slash, "
    "control character or broken escape, a raw byte outside US-ASCII and a fragment get 400 or 403, as does a target "
    "in absolute form with `https:` on a listener without TLS",
    Guarantee.FRAMING: "ambiguous lengths and codings get 400; bare LF, folded fields, HTTP/0.9 and extra blanks in "
    "the request line are read leniently and passed on in clean form, as is a bare CR in a field; of two Host lines or "
    "a target in absolute form one host counts; TRACE passes, CONNECT gets 404; empty X-Forwarded values and list "
    "elements of trusted proxies pass as they are, and HTTP/1.0 without a host may show no-host.invalid",
    Guarantee.CONNECTION_OPTIONS: "fields that a request's Connection names are dropped, and more than ten of them get "
    "400; those that a response's Connection names reach the client",
    Guarantee.ANSWERS: "short texts such as `no healthy upstream`, and none with 404; 503 where a connection fails, an "
    "endpoint closes without an answer or none is up, 504 where a response is late, 408 where that to a WebSocket "
    "handshake is, 431 for a large head (over HTTP/2 a reset stream)",
}


# Envoy before 1.40.
_OLD: dict[Feature, Verdict] = {
    Feature.MAX_BODY: approximate(
        "a body is held in memory until it ends or is too large; one that is too large by its stated length is refused "
        "once that much of it has arrived (Envoy 1.40 refuses it at once)",
        {"route.max_body.at_once": "text: no answer"},
    ),
}
_MALFORMED = _V1_40[Feature.MALFORMED]
_V1_37: dict[Feature, Verdict] = _OLD | {
    Feature.COMPRESSION: approximate(
        "a compressed response loses a strong ETag (Envoy 1.38 weakens it)", {"route.compression.etag": "header etag"}
    ),
    Feature.MALFORMED: approximate(
        f"{_MALFORMED.note}; a chunk with more bytes than it states is not refused: the stated ones reach the endpoint "
        "twice",
        {
            **dict(_MALFORMED.differs),
            "framing.malformed.chunk_overlong": "text: the second request reached an endpoint",
        },
    ),
}


def verdict(feature: Feature, version: str) -> Verdict:
    """The verdict of `version` on `feature`."""
    return TABLES[version][feature]


_TABLE: dict[Feature, Verdict] = {feature: _V1_40[feature] for feature in Feature}
TABLES = {"1.40": _TABLE, "1.39": _TABLE | _OLD, "1.38": _TABLE | _OLD, "1.37": _TABLE | _V1_37}
