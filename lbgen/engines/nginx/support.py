"""nginx's verdict on every feature, by version."""

from __future__ import annotations

from msgspec import Struct

from lbgen.engines.api import NATIVE, UNPORTABLE, Verdict, approximate, emulated, refused
from lbgen.engines.difference_shows import where_http2_is_served, where_lines_remain
from lbgen.plan.features import Feature
from lbgen.plan.guarantees import Guarantee

NEW, OLD = "1.31", "1.22"


class Version(Struct, frozen=True):
    """What a version of nginx has beyond 1.22."""

    number: str
    scripts: bool  # njs in its packages, the directive `http2`, all lines of a client's header; before 1.26 none
    # HTTP/2, names, sticky routes and queues of endpoints, idle clients kept on a reload, 405 for CONNECT: 1.30 on
    upstreams: bool


VERSIONS = {
    each.number: each
    for each in (
        Version(NEW, scripts=True, upstreams=True),
        Version("1.30", scripts=True, upstreams=True),
        Version("1.26", scripts=True, upstreams=False),
        Version(OLD, scripts=False, upstreams=False),
    )
}

_MAPS = emulated("locations for paths, and maps of regexes that select among the rules of a location")
_RAW_QUERY = emulated("regexes over the raw query, since nginx's own $arg_ variables ignore case and do not decode")
_RAW_COOKIE = emulated("regexes over the raw Cookie header, since nginx's own $cookie_ variables ignore case")
_ONE_LINE = approximate(
    "nginx 1.22 reads the first line only of a header sent on several lines",
    {
        "match.headers.lines": "another rule",
        "match.headers.regex.lines": "another rule",
        "match.headers.present.lines": "another rule",
    },
)
_FIRST_COUNTS = emulated("nginx's own limits, which on 1.22 count the first line of a key's header")
_OLD_ADD = approximate(
    "nginx 1.22 keeps the first line only of a header sent on several lines",
    {"route.request_headers.add.lines": "header x-tag"},
    when=where_lines_remain,
)

NOMINATED = (
    "a request whose Connection header names other fields than the standard hop-by-hop ones is answered with 400 "
    "instead of being forwarded without them"
)

_AGENT = "`lbgen agent` checks the endpoints, rewrites the servers of their upstreams and reloads nginx"

_MALFORMED = (
    "lines that end with a bare LF and control characters in header values are accepted; HTTP/0.9 gets the text "
    "Bad Request without a head; HTTP/2 frames for unopened streams or above the agreed size are ignored; a PROXY "
    "header whose addresses are not of its stated family is accepted; an address with a port in X-Forwarded-For is "
    "read without the port; the access log lacks the host of a request whose target nginx cannot parse; where a route "
    "has retries, a body without a length is read whole before it is forwarded; a line without a colon is a field "
    "without a value, and fields with invalid names are dropped; several equal lengths are refused; a request with "
    "trailers ends its HTTP/2 connection"
)
_BROKEN = {
    "framing.malformed.no_colon": "accepted",
    "framing.malformed.field_names": "accepted",
    "framing.malformed.equal_lengths": "status 400",
    "framing.malformed.bare_lf": "accepted",
    "framing.malformed.control": "accepted",
    "framing.malformed.h2_frames": "open",
    "framing.malformed.h2_trailers": "text: GOAWAY",
    "framing.malformed.proxy_family": "status 200",
    "framing.malformed.proxy_family_four": "status 200",
    "framing.malformed.forwarded_port": "status 403",
    "framing.malformed.log_bad_escape": "text: host ''",
    "framing.malformed.log_unread": "text: host ''",
    "framing.malformed.unsized_flows": "text: no byte of the body",
}

_BRACKETS = {"framing.malformed.forwarded_brackets": "status 403"}


def _failures(passed: str) -> Verdict:
    """The verdict on answers of endpoints that fail; `passed` are the interim responses that nginx does not
    take for final ones."""
    return approximate(
        "bytes of an endpoint that are no HTTP reach the client unchanged, not as 502; an interim response other than "
        f"{passed} is logged as the response of its request, the final one reaches the client as the endpoint sent it, "
        "without response_headers, and the client's connection serves nothing more; a response head above 20 KiB "
        "gets 502; trailers over HTTP/1 and an empty Content-Type are dropped; nginx's own answers carry "
        "`Server: nginx`, as do those of HTTP/2 endpoints that send no Server header",
        {
            "statuses.failures.garbage": ("no http", "text: tries reached", "text: tries went to"),
            "statuses.failures.interim": ("header content-type", "header x-a", "header x-other"),
            "statuses.failures.server": "header server: nginx",
        },
    )


_COMMON: dict[Feature, Verdict] = {
    Feature.L7: NATIVE,
    Feature.L4_TCP: NATIVE,
    Feature.L4_UDP: NATIVE,
    Feature.TLS_NO_SNI: NATIVE,
    Feature.TLS_TERMINATE: emulated("a server block for each name of a certificate or a host"),
    Feature.TLS_CLIENT_CERT: emulated("the connection is closed where nginx would answer with 400"),
    Feature.TLS_PASSTHROUGH: NATIVE,
    Feature.HTTP2: NATIVE,
    Feature.PROXY_PROTOCOL_IN: NATIVE,
    Feature.MAX_CONNECTIONS: refused("nginx limits connections on L4 listeners only; for HTTP it limits requests"),
    Feature.L4_MAX_CONNECTIONS: NATIVE,
    Feature.LISTENER_ACCESS: emulated("a geo block with the verdict for each network"),
    Feature.LISTENER_LIMITS: emulated(
        "maps over the lengths of the target and the head; over HTTP/2 a script (njs) sums up the headers"
    ),
    Feature.CLIENT_TIMEOUTS: NATIVE,
    Feature.TRUSTED_PROXIES: emulated("a geo block for the trusted networks and a map per header"),
    Feature.DUAL_STACK: emulated("one socket for IPv4 and one for IPv6"),
    Feature.HOST_EXACT: NATIVE,
    Feature.HOST_WILDCARD: NATIVE,
    Feature.PATH_EXACT: NATIVE,
    Feature.PATH_PREFIX: emulated("an exact location for the path, and a prefix location for the paths below"),
    Feature.PATH_REGEX: _MAPS,
    Feature.METHOD: _MAPS,
    Feature.HEADER: _MAPS,
    Feature.HEADER_REGEX: _MAPS,
    Feature.HEADER_PRESENT: _MAPS,
    Feature.QUERY: _RAW_QUERY,
    Feature.QUERY_REGEX: _RAW_QUERY,
    Feature.QUERY_PRESENT: _RAW_QUERY,
    Feature.COOKIE: _RAW_COOKIE,
    Feature.COOKIE_REGEX: _RAW_COOKIE,
    Feature.COOKIE_PRESENT: _RAW_COOKIE,
    Feature.PRIORITY: emulated("the order of the rules is computed when nginx.conf is rendered"),
    Feature.L4_SNI: emulated("a map over the server name in the order of the rules"),
    Feature.L4_SOURCES: emulated("a geo block per set of networks, and a map in the order of the rules"),
    Feature.PATHS_STRICT: emulated("a regex over the request line, tested before any location"),
    Feature.PATHS_ALLOW: emulated("rules test the raw path"),
    Feature.PATHS_NORMALIZE: emulated("a script (njs) that normalises paths which are not normal already"),
    Feature.PATHS_VERBATIM: emulated("rules test the raw path"),
    Feature.FRAMING: emulated("a regex over Host and the request line, beside nginx's own parser"),
    Feature.MALFORMED: approximate(_MALFORMED, _BROKEN | _BRACKETS),
    Feature.HOP_BY_HOP: NATIVE,
    Feature.CONNECTION_NOMINATED: emulated(
        "a second location per forwarding one, whose header fields a script (njs) writes"
    ),
    Feature.UNDERSCORES_DROP: approximate(
        "fields whose names contain other characters than letters, digits and hyphens, such as dots, are dropped too",
        {"headers_with_underscores.drop.others": ("text: x.dot is missing", "text: x.dot: None")},
    ),
    Feature.UNDERSCORES_PASS: NATIVE,
    Feature.FORWARDED_HEADERS: NATIVE,
    Feature.REQUEST_ID: NATIVE,
    Feature.REQUEST_HEADERS_SET: NATIVE,
    Feature.REQUEST_HEADERS_ADD: emulated("the header is set to the client's value and the added line"),
    Feature.REQUEST_HEADERS_REMOVE: NATIVE,
    Feature.RESPONSE_HEADERS_SET: emulated("the endpoint's header is hidden and another one added"),
    Feature.RESPONSE_HEADERS_ADD: NATIVE,
    Feature.RESPONSE_HEADERS_REMOVE: NATIVE,
    Feature.FORWARD: NATIVE,
    Feature.SPLIT: emulated("a random choice per request, in steps of 0.01 %"),
    Feature.SPLIT_HEADERS: emulated("a map from the selected pool to the header's value"),
    Feature.REDIRECT: emulated("`return`, with nginx's own HTML page as the body"),
    Feature.RESPOND: emulated(
        "`return`; nginx answers `If-None-Match: *` with 304, and If-Match or If-Unmodified-Since with 412, for a 200"
    ),
    Feature.REWRITE_PREFIX: emulated("a map over the raw target, since nginx's own rewriting decodes it"),
    Feature.REWRITE_PATH: NATIVE,
    Feature.REWRITE_HOST: NATIVE,
    Feature.MIRROR: emulated(
        "internal locations get the copies; while one waits for its endpoint, at most 1 s, nginx neither serves the "
        "next request of the client's HTTP/1 connection nor closes it"
    ),
    Feature.CORS: emulated("maps over Origin and the headers of a preflight"),
    Feature.COMPRESSION: approximate(
        "responses of 403 and 404 and of text/html are compressed as well, no-transform is ignored, and the first of "
        "several Accept-Encoding lines applies",
        {
            "route.compression.lines": ("text", "header content-encoding", "header vary"),
            "route.compression.html": ("text", "header content-encoding", "header vary"),
            "route.compression.no_transform": ("text", "header content-encoding", "header vary"),
            "route.compression.status": ("text", "header content-encoding", "header vary"),
        },
    ),
    Feature.BUFFERING: NATIVE,
    Feature.WEBSOCKET: NATIVE,
    Feature.STATUSES: NATIVE,
    Feature.FAILURES: _failures("101 and 103"),
    Feature.RATE_LIMIT: NATIVE,
    Feature.CONCURRENCY: NATIVE,
    Feature.MAX_BODY: emulated(
        "a map over Content-Length in addition to nginx's own limit, which named locations do not apply to it"
    ),
    Feature.ROUTE_ACCESS: emulated("a geo block with the verdict for each network"),
    Feature.TIMEOUT_CONNECT: NATIVE,
    Feature.TIMEOUT_RESPONSE: NATIVE,
    Feature.TIMEOUT_IDLE: NATIVE,
    Feature.TIMEOUT_REQUEST: refused("nginx has no limit on the total time of a request"),
    Feature.RETRIES: emulated("a location per try, and a map from the cause of a failure to the next one"),
    Feature.RETRY_BUDGET: refused("nginx does not relate retries to requests"),
    Feature.ROUND_ROBIN: NATIVE,
    Feature.LEAST_CONNECTIONS: NATIVE,
    Feature.LEAST_CONNECTIONS_WEIGHTED: NATIVE,
    Feature.RANDOM: NATIVE,
    Feature.SOURCE_HASH: NATIVE,
    Feature.SOURCE_HASH_WEIGHTED: NATIVE,
    Feature.HASH: NATIVE,
    Feature.WEIGHTS: NATIVE,
    Feature.DRAIN: NATIVE,
    Feature.BACKUP: NATIVE,
    Feature.ENDPOINT_NAMES: emulated(
        "nginx's own resolver, which asks DNS servers alone: a name of /etc/hosts such as localhost is unknown to it"
    ),
    Feature.ENDPOINT_IPV6: NATIVE,
    Feature.HEALTH_ACTIVE: emulated(_AGENT),
    Feature.HEALTH_PASSIVE: approximate(
        "responses of 5xx are not counted; a success does not reset the count, only eject_for without a failure does; "
        "after an ejection one failure ejects the endpoint again; and eject_for is up to a second longer, in whole "
        "seconds",
        {
            "pool.health.passive.5xx": "text: 500: ",
            "pool.health.passive.every_5xx": ("text: 501: ", "text: 505: "),
            "pool.health.passive.in_a_row": "text: two failures and a success",
            "pool.health.passive.in_time": "text: back after",
            "pool.health.passive.anew": "text: one failure after it came back",
        },
    ),
    Feature.KEEPALIVE: NATIVE,
    Feature.KEEPALIVE_IDLE: NATIVE,
    Feature.MAX_PER_ENDPOINT: NATIVE,
    Feature.QUEUE: emulated("a script (njs) in which a request waits for an endpoint, also once its client has left"),
    Feature.SLOW_START: emulated("`lbgen agent` raises the weight of a restored endpoint in ten steps"),
    Feature.STICKY: emulated("`sticky route` with the endpoints' ids, and a map with the cookie"),
    Feature.POOL_TLS: NATIVE,
    Feature.POOL_HTTP2: NATIVE,
    Feature.POOL_GRPC: NATIVE,
    Feature.PROXY_PROTOCOL_OUT: refused("nginx sends no PROXY header to HTTP endpoints"),
    Feature.L4_PROXY_PROTOCOL_OUT: NATIVE,
    Feature.ACCESS_LOG: emulated(
        "nginx's own times and lists of tries, which `lbgen logs` translates to the schema; bytes include the framing "
        "of chunks and a 100 Continue, and an endpoint's 499 without a body counts as a client that left"
    ),
    Feature.METRICS: emulated("`lbgen agent` counts the lines of a second log"),
    Feature.METRICS_L4: emulated("`lbgen agent` counts the lines of a log of connections"),
    Feature.ESCAPE_HATCH: UNPORTABLE,
    Feature.DIRECT: refused("it forwards bytes itself, so replies come back through it"),
}

# What nginx does where a clause is left to it.
HABITS = {
    Guarantee.PATHS: "a path with dot segments, empty segments, or escapes that are broken or of slashes, backslashes, "
    "control or unreserved characters gets 400; the host of a target in absolute form chooses the route, and Host is "
    "forwarded",
    Guarantee.FRAMING: "Content-Length beside Transfer-Encoding, differing lengths, unknown codings, folded fields and "
    "a missing or second Host get 400; a bare LF and control characters in values are accepted, lines without a colon "
    "and fields with invalid names are dropped; TRACE and CONNECT get 405",
    Guarantee.CONNECTION_OPTIONS: "fields that Connection names pass, in requests and in responses; of HTTP/1.1's own "
    "nginx drops Connection, Keep-Alive, TE, Upgrade and Transfer-Encoding; an Upgrade to websocket passes whatever "
    "Connection says; Upgrade of a response passes",
    Guarantee.ANSWERS: "nginx's own HTML pages with `Server: nginx`; 502 where an endpoint fails or none is up, 504 "
    "where a time is over, 400 or 414 for a large head; bytes of an endpoint that are no HTTP reach the client, as "
    "does what follows an interim response",
}

_H2_FIELDS = (
    "over HTTP/2 the fields of an HTTP/1.1 connection, such as Connection and Transfer-Encoding, are dropped instead "
    "of being refused"
)
_H2_ORDER = "; over HTTP/2 a pseudo-header behind other fields is accepted"
_H2_BROKEN: dict[str, str | tuple[str, ...]] = {
    **_BROKEN,
    "framing.malformed.h2_frames": ("open", "text: pseudo-header behind", "text: 1 of these"),
}
_NGINX_1_30: dict[Feature, Verdict] = {
    Feature.FRAMING: approximate(_H2_FIELDS, {"framing.h2_headers": "accepted"}, when=where_http2_is_served),
    Feature.MALFORMED: approximate(_MALFORMED + _H2_ORDER, {**_H2_BROKEN, **_BRACKETS}),
}
_NGINX_1_26: dict[Feature, Verdict] = {
    Feature.FRAMING: approximate(
        f"{_H2_FIELDS}, and a Host beside :authority is refused even where both are the same",
        {"framing.h2_headers": "accepted", "framing.h2_host": "text: host b'h"},
        when=where_http2_is_served,
    ),
    Feature.MALFORMED: approximate(_MALFORMED + _H2_ORDER, _H2_BROKEN),
}

# nginx before 1.30.
_OLD_UPSTREAMS: dict[Feature, Verdict] = {
    Feature.FAILURES: _failures("101"),
    Feature.HEALTH_ACTIVE: approximate(
        f"{_AGENT}, but nginx before 1.28 closes idle client connections on a reload (up to ten times in a slow "
        "start): requests just sent on them get no answer",
        {"pool.health.active.kept": "text: answers on kept connections: {'200"},
    ),
    Feature.QUEUE: refused("nginx before 1.30 has no queue for requests: its njs lacks js_access"),
    Feature.STICKY: emulated("a map from the cookie to an upstream of that one endpoint"),
    Feature.POOL_HTTP2: emulated("nginx's gRPC module, which carries any request over HTTP/2"),
    Feature.ENDPOINT_NAMES: refused("nginx resolves names at run time from 1.27.3 on only"),
}

SUPPORT: dict[str, dict[Feature, Verdict]] = {
    NEW: _COMMON,
    "1.30": _COMMON | _NGINX_1_30,
    "1.26": _COMMON | _NGINX_1_26 | _OLD_UPSTREAMS,
    OLD: _COMMON
    | _OLD_UPSTREAMS
    | {
        Feature.MALFORMED: approximate(_MALFORMED, _BROKEN),
        Feature.HOP_BY_HOP: approximate(
            "an Upgrade in a response other than 101 reaches the client",
            {"headers.hop_by_hop.response_upgrade": "header upgrade"},
        ),
        Feature.HEADER: _ONE_LINE,
        Feature.HEADER_REGEX: _ONE_LINE,
        Feature.HEADER_PRESENT: _ONE_LINE,
        Feature.REQUEST_HEADERS_ADD: _OLD_ADD,
        Feature.RATE_LIMIT: _FIRST_COUNTS,
        Feature.CONCURRENCY: _FIRST_COUNTS,
        Feature.PATHS_NORMALIZE: approximate(
            "a path that needs normalising and an escape is answered with 400",
            {"paths.normalize.escapes": "status 400"},
        ),
        Feature.CONNECTION_NOMINATED: approximate(
            NOMINATED + "; nginx 1.22 reads the first Connection line only and forwards fields that further lines "
            "name; fields that the Connection header of a response names reach the client",
            {
                "headers.connection_nominated.response": ("header x-foo", "header x-two", "header x-11", "header x-12"),
                "headers.connection_nominated.names": "status 400",
                "headers.connection_nominated.http2": "status 400",
                "headers.connection_nominated.otherwise": (
                    "status 400",
                    "text",
                    "header x-a",
                    "text: echoes",
                    "text: location None",
                    "text: : status 400",
                    "text: went to []",
                    "text: 0 tries reached",
                ),
                "headers.connection_nominated.lines": "header x-hop",
                "headers.connection_nominated.second_line": "accepted",
            },
        ),
    },
}
