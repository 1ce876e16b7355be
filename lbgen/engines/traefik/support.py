"""Verdicts of Traefik 3.7 on every feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import NATIVE, UNPORTABLE, approximate, emulated, refused
from lbgen.plan.features import Feature
from lbgen.plan.guarantees import Guarantee

if TYPE_CHECKING:
    from lbgen.engines.api import Verdict

_RULES = emulated("a router of Traefik; the lbgen plugin makes the request that its matchers read")
_LAST_HOP = emulated("the lbgen plugin forwards the request, because Traefik's proxy would change it")
_ANSWER = emulated("the lbgen plugin answers")
_TARGET = emulated("the lbgen plugin checks the target as the client sent it; Traefik would decode it")
_BALANCE = emulated("the lbgen plugin chooses the endpoint; Traefik's balancers lack this method or its weights")
_SPLIT = emulated("the lbgen plugin picks the target by weight and edits its headers")
_EDITS = emulated("the lbgen plugin edits the headers; Traefik's headers middleware can only set")

_OTHER_FAMILY = ", and so is a PROXY header that says TCP6 and names IPv4 addresses"

_SUPPORT: dict[Feature, Verdict] = {
    Feature.L7: NATIVE,
    Feature.L4_TCP: NATIVE,
    Feature.L4_UDP: NATIVE,
    Feature.TLS_TERMINATE: NATIVE,
    Feature.TLS_NO_SNI: NATIVE,
    Feature.TLS_CLIENT_CERT: NATIVE,
    Feature.TLS_PASSTHROUGH: NATIVE,
    Feature.HTTP2: NATIVE,
    Feature.PROXY_PROTOCOL_IN: emulated(
        "Traefik reads the header; the lbgen plugin closes connections without one, of HTTP/2 after a 400"
    ),
    Feature.L4_MAX_CONNECTIONS: refused("Traefik limits TCP connections per client address only"),
    Feature.MAX_CONNECTIONS: emulated("the lbgen plugin counts; Traefik's own limit is per client address"),
    Feature.LISTENER_ACCESS: _ANSWER,
    Feature.LISTENER_LIMITS: _ANSWER,
    Feature.CLIENT_TIMEOUTS: emulated(
        "Traefik's own timeouts; the lbgen plugin sets one for heads, watches bodies, and closes connections that stop "
        "within a line before Go's server answers 400"
    ),
    Feature.TRUSTED_PROXIES: emulated("the lbgen plugin keeps forwarded headers of trusted peers only"),
    Feature.DUAL_STACK: NATIVE,
    Feature.HOST_EXACT: _RULES,
    Feature.HOST_WILDCARD: _RULES,
    Feature.PATH_EXACT: _RULES,
    Feature.PATH_PREFIX: _RULES,
    Feature.PATH_REGEX: _RULES,
    Feature.METHOD: _RULES,
    Feature.HEADER: _RULES,
    Feature.HEADER_REGEX: _RULES,
    Feature.HEADER_PRESENT: _RULES,
    Feature.QUERY: _RULES,
    Feature.QUERY_REGEX: _RULES,
    Feature.QUERY_PRESENT: _RULES,
    Feature.COOKIE: _RULES,
    Feature.COOKIE_REGEX: _RULES,
    Feature.COOKIE_PRESENT: _RULES,
    Feature.PRIORITY: _RULES,
    Feature.L4_SNI: NATIVE,
    Feature.L4_SOURCES: NATIVE,
    Feature.PATHS_STRICT: _TARGET,
    Feature.PATHS_ALLOW: _TARGET,
    Feature.PATHS_NORMALIZE: _TARGET,
    Feature.PATHS_VERBATIM: _TARGET,
    Feature.FRAMING: emulated("the lbgen plugin refuses what Go's server would read leniently"),
    Feature.MALFORMED: approximate(
        "what Go's server refuses before any plugin runs gets Traefik's own text instead of the reason phrase (over "
        "HTTP/2 a reset stream), unknown transfer codings 501, other HTTP versions 505, and no line in the access "
        "log; a first line without a version is waited on for more; in a head above 4 KiB, that comes in several "
        "pieces or in one with the body before it, a target in absolute form is refused, and bare line feeds, folded "
        f"lines and a Content-Length beside a coding are accepted{_OTHER_FAMILY}; an empty line before a request is "
        "refused",
        {
            "framing.malformed.no_host": "text",
            "framing.malformed.log_bad_escape": "text: 0 lines",
            "framing.malformed.proxy_family": "status 200",
            "framing.malformed.two_hosts": "text",
            "framing.malformed.equal_hosts": "text",
            "framing.malformed.host_characters": "text",
            "framing.malformed.bad_escape": "text",
            "framing.malformed.h2_bad_escape": "closed",
            "framing.malformed.unknown_coding": "status 501",
            "framing.malformed.coding_before_chunked": "status 501",
            "framing.malformed.version": "status 505",
            "framing.malformed.http09": "open",
            "framing.malformed.not_http": "open",
            "framing.malformed.large_head": "accepted",
            "framing.malformed.pieces": "accepted",
            "framing.malformed.pieces_absolute": "status 400",
            "framing.malformed.empty_line": "status 400",
        },
    ),
    Feature.HOP_BY_HOP: emulated(
        "the lbgen plugin takes requests from Go's server itself, before Traefik fills in headers of its own; Go drops "
        "Content-Type and Content-Length of a 304, Proxy-Authenticate of a 407 and an empty User-Agent, and without an "
        "access log adds a Content-Type to a response that has none and follows a 1xx"
    ),
    Feature.CONNECTION_NOMINATED: approximate(
        "headers that a response's Connection nominates beside `close` reach the client: Go's client removes that line "
        "before any plugin sees it",
        {"headers.connection_nominated.response_close": "header x-foo"},
    ),
    Feature.UNDERSCORES_DROP: emulated("the lbgen plugin drops the fields; Traefik would drop names with dots too"),
    Feature.UNDERSCORES_PASS: NATIVE,
    Feature.FORWARDED_HEADERS: emulated("the lbgen plugin writes them; Traefik's own port is not the listener's"),
    Feature.REQUEST_ID: emulated("the lbgen plugin makes the id"),
    Feature.REQUEST_HEADERS_SET: _EDITS,
    Feature.REQUEST_HEADERS_ADD: _EDITS,
    Feature.REQUEST_HEADERS_REMOVE: _EDITS,
    Feature.RESPONSE_HEADERS_SET: _EDITS,
    Feature.RESPONSE_HEADERS_ADD: _EDITS,
    Feature.RESPONSE_HEADERS_REMOVE: _EDITS,
    Feature.FORWARD: _LAST_HOP,
    Feature.SPLIT: _SPLIT,
    Feature.SPLIT_HEADERS: _SPLIT,
    Feature.REDIRECT: emulated("the lbgen plugin answers; Traefik's redirects lack some statuses and the port"),
    Feature.RESPOND: emulated("the lbgen plugin answers; Traefik has no fixed responses with a body"),
    Feature.REWRITE_PREFIX: _LAST_HOP,
    Feature.REWRITE_PATH: _LAST_HOP,
    Feature.REWRITE_HOST: _LAST_HOP,
    Feature.MIRROR: emulated("the lbgen plugin sends the copies, as forwarded, of bodies up to 64 KiB"),
    Feature.CORS: emulated(
        "the lbgen plugin answers preflights; Traefik's headers middleware lets refused ones through"
    ),
    Feature.COMPRESSION: emulated("the lbgen plugin compresses responses by the rules of every engine"),
    Feature.BUFFERING: _LAST_HOP,
    Feature.WEBSOCKET: _LAST_HOP,
    Feature.STATUSES: _ANSWER,
    Feature.FAILURES: emulated(
        "the lbgen plugin answers; where a client leaves just as its response arrives, one without a body, Go may end "
        "another request to that endpoint too, which gets 502; without an access log a plain response without a "
        "Content-Type gets a guessed one where an interim response came before it"
    ),
    Feature.RATE_LIMIT: emulated("the lbgen plugin keeps the buckets; Traefik's own delays requests and adds headers"),
    Feature.CONCURRENCY: emulated("the lbgen plugin counts; Traefik's own limit is per router"),
    Feature.MAX_BODY: _ANSWER,
    Feature.ROUTE_ACCESS: _ANSWER,
    Feature.TIMEOUT_CONNECT: emulated("the lbgen plugin's dialer on L7 routes; native on L4 routes"),
    Feature.TIMEOUT_RESPONSE: emulated("a timeout of the lbgen plugin's transport"),
    Feature.TIMEOUT_IDLE: emulated(
        "the lbgen plugin watches bodies and tunnels; Traefik has no idle timeout; it sees what a client takes in "
        "pieces of up to 32 KiB, so that over HTTP/2 one that takes less in that time counts as silent"
    ),
    Feature.TIMEOUT_REQUEST: emulated("the lbgen plugin ends the request; Traefik has no timeout for all tries"),
    Feature.RETRIES: emulated(
        "the lbgen plugin retries; Traefik's own retries support neither causes nor another endpoint"
    ),
    Feature.RETRY_BUDGET: emulated("the lbgen plugin counts retries; one at a time is always allowed"),
    Feature.ROUND_ROBIN: emulated(
        "the lbgen plugin balances on L7 routes, because retries and health affect it; native on L4 routes"
    ),
    Feature.LEAST_CONNECTIONS: _BALANCE,
    Feature.LEAST_CONNECTIONS_WEIGHTED: _BALANCE,
    Feature.RANDOM: _BALANCE,
    Feature.SOURCE_HASH: _BALANCE,
    Feature.SOURCE_HASH_WEIGHTED: _BALANCE,
    Feature.HASH: _BALANCE,
    Feature.WEIGHTS: emulated("the lbgen plugin balances on L7 routes; native on L4 routes"),
    Feature.DRAIN: _BALANCE,
    Feature.BACKUP: emulated("the lbgen plugin chooses the endpoint; on L4 routes `lbgen agent` does"),
    Feature.ENDPOINT_NAMES: emulated("the lbgen plugin resolves names every 5 seconds; native on L4 routes"),
    Feature.ENDPOINT_IPV6: NATIVE,
    Feature.HEALTH_ACTIVE: emulated(
        "the lbgen plugin runs the checks, on L4 routes `lbgen agent`; Traefik's own have no fall and rise; "
        "a check without `path` opens a connection and begins no TLS"
    ),
    Feature.HEALTH_PASSIVE: emulated("the lbgen plugin counts the failures, in step with its retries"),
    Feature.KEEPALIVE: emulated("the lbgen plugin's transport keeps that many idle connections for each endpoint"),
    Feature.KEEPALIVE_IDLE: emulated("a timeout of the lbgen plugin's transport"),
    Feature.MAX_PER_ENDPOINT: _BALANCE,
    Feature.QUEUE: _BALANCE,
    Feature.SLOW_START: _BALANCE,
    Feature.STICKY: emulated("the lbgen plugin sets and reads the cookie, whose value is the same on every engine"),
    Feature.POOL_TLS: _LAST_HOP,
    Feature.POOL_HTTP2: _LAST_HOP,
    Feature.POOL_GRPC: _LAST_HOP,
    Feature.PROXY_PROTOCOL_OUT: _LAST_HOP,
    Feature.L4_PROXY_PROTOCOL_OUT: NATIVE,
    Feature.ACCESS_LOG: emulated(
        "the lbgen plugin writes the lines; Traefik's own lines use other names and contain the query"
    ),
    Feature.METRICS: emulated("`lbgen agent` counts the lines of a second log"),
    Feature.METRICS_L4: refused("Traefik logs no connections of L4 listeners, and counts no bytes of them"),
    Feature.ESCAPE_HATCH: UNPORTABLE,
    Feature.DIRECT: refused("it forwards bytes itself, so replies come back through it"),
}

# What Traefik does where a clause is left to it.
HABITS = {
    Guarantee.PATHS: "rules and endpoints see the path with escapes of letters and digits decoded, dot segments "
    "resolved, slashes merged and raw bytes outside the URI set escaped; a `;` in a query becomes `&`; broken escapes "
    "and those of slashes, backslashes and NUL get 400",
    Guarantee.FRAMING: "Transfer-Encoding wins over Content-Length; bare LF and folded fields are accepted; differing "
    "lengths and a second Host get 400, unknown codings 501, other HTTP versions 505; TRACE passes, CONNECT gets 405",
    Guarantee.CONNECTION_OPTIONS: "fields that a request's Connection names are dropped; those that a response's "
    "Connection names beside `close` reach the client",
    Guarantee.ANSWERS: "Go's and Traefik's own texts such as `404 page not found`; 502 where a connection fails, 500 "
    "for a failure of TLS, 503 where no endpoint is up, 504 where a time is over; a response without a Content-Type "
    "gets a guessed one where an interim response came before it",
}

_MALFORMED = _SUPPORT[Feature.MALFORMED]
_SUPPORT_3_6: dict[Feature, Verdict] = _SUPPORT | {
    Feature.CLIENT_TIMEOUTS: approximate(
        "a connection without TLS on which fewer than nine bytes arrive, and no end of a line, is not closed",
        {"listener.timeouts.first_bytes": ("open", "time")},
    ),
    Feature.MALFORMED: approximate(
        _MALFORMED.note.replace(_OTHER_FAMILY, ""),
        {part: shown for part, shown in _MALFORMED.differs if part != "framing.malformed.proxy_family"},
    ),
}

SUPPORT: dict[str, dict[Feature, Verdict]] = {"3.7": _SUPPORT, "3.6": _SUPPORT_3_6}
