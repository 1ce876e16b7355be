"""nginx's verdict on every feature, by version; what it has without more is not listed."""

from __future__ import annotations

from msgspec import Struct

from lbgen.engines.api import AT_TIMES, NATIVE, UNPORTABLE, Verdict, approximate, emulated, habit, refused
from lbgen.engines.conditions import condition_verdicts
from lbgen.engines.difference_shows import where_lines_remain
from lbgen.engines.nginx.matching import CONDITIONS
from lbgen.plan.conditions import Header, features_of
from lbgen.plan.features import Feature

NEW, OLD = "1.31", "1.22"


class Version(Struct, frozen=True):
    """What a version of nginx has beyond 1.22."""

    number: str
    http2_directive: bool  # and all lines of a client's header, and servers by name at L4: from 1.26 on
    upstreams: bool  # HTTP/2, names and sticky routes of endpoints, idle clients kept on a reload: from 1.30 on


VERSIONS = {
    each.number: each
    for each in (
        Version(NEW, http2_directive=True, upstreams=True),
        Version("1.30", http2_directive=True, upstreams=True),
        Version("1.26", http2_directive=True, upstreams=False),
        Version(OLD, http2_directive=False, upstreams=False),
    )
}

_HEADERS = features_of(Header)
_ONE_LINE = habit(
    "nginx 1.22 reads the first line only of a header sent on several lines",
    {f"{feature}.lines": "another rule" for feature in _HEADERS},
)
_FIRST_COUNTS = emulated("nginx's own limits, which on 1.22 count the first line of a key's header")
_OLD_ADD = habit(
    "nginx 1.22 keeps the first line only of a header sent on several lines",
    {"route.request_headers.add.lines": "header x-tag"},
    when=where_lines_remain,
)

_AGENT = "`lbgen agent` checks the endpoints, rewrites the servers of their upstreams and reloads nginx"

_MALFORMED = emulated(
    "nginx refuses with 400, or closes the connection: lengths that differ or stand beside Transfer-Encoding, unknown "
    "codings, folded fields, a missing or second Host; TRACE and CONNECT get 400 or 405; a bare LF and control "
    "characters in values pass as they came, lines without a colon and fields with invalid names are dropped"
)
_FAILURES = habit(
    "nginx's own HTML pages with `Server: nginx`: 502 where an endpoint fails or none is up, 504 where a time is over; "
    "bytes of an endpoint that are no HTTP reach the client; an interim response other than 101 and 103 is taken for "
    "the final one by nginx's log; a response head above 20 KiB gets 502",
    {
        "statuses.failures.garbage": ("no http", "tries", "endpoint"),
        "statuses.failures.server": "header server: nginx",
    },
)

_COMMON: dict[Feature, Verdict] = dict.fromkeys(Feature, NATIVE) | {
    Feature.TLS_TERMINATE: emulated("a server block for each name of a certificate or a host"),
    Feature.TLS_CLIENT_CERT: habit(
        "a client without a valid certificate gets 400 after the handshake",
        {"listener.tls.client.refusal": ("status 400", "status 421")},
    ),
    Feature.HTTP2: habit(
        "nginx sends no 100 Continue over HTTP/2: a client that waits for it without a limit, as Java's HttpClient "
        "with expectContinue(true) does, never sends its body",
        {"listener.http2.expect": "other"},
    ),
    Feature.MAX_CONNECTIONS: refused("nginx limits connections on L4 listeners only; for HTTP it limits requests"),
    Feature.LISTENER_ACCESS: emulated("a geo block with the verdict for each network"),
    Feature.LISTENER_LIMITS: emulated(
        "a head may be up to twice as long as limits.headers; nginx answers 400, 414 or 431"
    ),
    Feature.TRUSTED_PROXIES: emulated("a geo block for the trusted networks and a map per header"),
    Feature.DUAL_STACK: emulated("one socket for IPv4 and one for IPv6"),
    Feature.HOST_EXACT: NATIVE,
    Feature.HOST_WILDCARD: NATIVE,
    **condition_verdicts(CONDITIONS),
    Feature.PRIORITY: emulated("the order of the rules is computed when nginx.conf is rendered"),
    Feature.L4_SNI: emulated("a map over the server name in the order of the rules"),
    Feature.L4_SOURCES: emulated("a geo block per set of networks, and a map in the order of the rules"),
    Feature.PATHS_STRICT: emulated("a map over the target, tested before any location"),
    Feature.PATHS_ALLOW: emulated("rules test the raw path"),
    Feature.PATHS_NORMALIZE: habit(
        "nginx's own normal form; a path that needs normalising and an escape is answered with 400",
        {"paths.normalize.escapes": "status 400"},
    ),
    Feature.PATHS_VERBATIM: emulated("rules test the raw path"),
    Feature.FRAMING: _MALFORMED,
    Feature.MALFORMED: _MALFORMED,
    Feature.CONNECTION_NOMINATED: emulated(
        "a request whose Connection header names other fields than those of one connection is answered with 400; "
        "fields that the Connection header of a response names reach the client"
    ),
    Feature.UNDERSCORES_DROP: habit(
        "fields whose names contain other characters than letters, digits and hyphens, such as dots, are dropped too",
        {"headers_with_underscores.drop.others": "header x.dot"},
    ),
    Feature.UNDERSCORES_PASS: habit(
        "nginx reads a header and its spellings with `_` for `-` or `-` for `_` from one variable",
        {"headers_with_underscores.pass.rules": "pool"},
    ),
    Feature.REQUEST_HEADERS_ADD: emulated("the header is set to the client's value and the added line"),
    Feature.RESPONSE_HEADERS_SET: emulated("the endpoint's header is hidden and another one added"),
    Feature.SPLIT: emulated("a random choice per request, in steps of 0.01 %"),
    Feature.SPLIT_HEADERS: emulated("a map from the selected pool to the header's value"),
    Feature.REDIRECT: emulated("`return`, with nginx's own HTML page as the body"),
    Feature.RESPOND: emulated(
        "`return`; nginx answers `If-None-Match: *` with 304, and If-Match or If-Unmodified-Since with 412, for a 200"
    ),
    Feature.REWRITE_PREFIX: emulated("a map over the raw target, since nginx's own rewriting decodes it"),
    Feature.MIRROR: emulated(
        "internal locations get the copies; while one waits for its endpoint, at most 1 s, nginx neither serves the "
        "next request of the client's HTTP/1 connection nor closes it"
    ),
    Feature.CORS: emulated(
        "maps over Origin; a preflight of an allowed origin gets the whole policy, whatever it asks for"
    ),
    Feature.COMPRESSION: habit(
        "responses of 403 and 404 and of text/html are compressed as well, no-transform is ignored, and the first of "
        "several Accept-Encoding lines applies",
        {
            "route.compression.lines": ("text", "header content-encoding", "header vary"),
            "route.compression.html": ("text", "header content-encoding", "header vary"),
            "route.compression.no_transform": ("text", "header content-encoding", "header vary"),
            "route.compression.status": ("text", "header content-encoding", "header vary"),
        },
    ),
    Feature.BUFFERING: emulated(
        "responses are buffered where no listener has TLS, unless `buffering: { response: false }`, the endpoint's "
        "X-Accel-Buffering: no or compression asks otherwise: chunked ones and those of gRPC flow, others wait for a "
        "full buffer (20 KiB); beside TLS they are buffered where `buffering: { response: true }` asks, as nginx's TLS "
        "holds what it buffers back over HTTP/1.1"
    ),
    Feature.STATUSES: emulated("nginx's own HTML pages with `Server: nginx`; 400 or 414 for a large head"),
    Feature.FAILURES: _FAILURES,
    Feature.MAX_BODY: emulated(
        "a map over Content-Length in addition to nginx's own limit, which named locations do not apply to it"
    ),
    Feature.ROUTE_ACCESS: emulated("a geo block with the verdict for each network"),
    Feature.TIMEOUT_REQUEST: refused("nginx has no limit on the total time of a request"),
    Feature.RETRIES: habit(
        "each endpoint is tried once at most; nginx cannot tell a refused connection from one that breaks, nor the "
        "time to connect from the time to respond, so it retries both; what was sent already it repeats for all "
        "methods but POST, PATCH and LOCK, and only without a body or with one that came with the head or is "
        "buffered (buffering.request)",
        {
            "route.retries.each_once": (f"{AT_TIMES}status 502", f"{AT_TIMES}tries"),
            "route.retries.broken": "tries",
            "route.retries.unknown_methods": "tries",
        },
    ),
    Feature.RETRY_BUDGET: refused("nginx does not relate retries to requests"),
    Feature.ENDPOINT_NAMES: emulated(
        "nginx's own resolver, which asks the DNS servers of `resolvers` alone: names that only /etc/hosts holds are "
        "unknown to it, but for localhost, which is 127.0.0.1 here"
    ),
    Feature.HEALTH_ACTIVE: emulated(_AGENT),
    Feature.HEALTH_PASSIVE: approximate(
        "responses of 5xx are not counted; a success does not reset the count, only eject_for without a failure does; "
        "after an ejection one failure ejects the endpoint again; and eject_for is up to a second longer, in whole "
        "seconds",
        {
            "pool.health.passive.5xx": "endpoint",
            "pool.health.passive.in_a_row": "endpoint",
            "pool.health.passive.in_time": "endpoint",
            "pool.health.passive.anew": "endpoint",
        },
    ),
    Feature.QUEUE: refused("nginx has no queue for requests"),
    Feature.SLOW_START: emulated("`lbgen agent` raises the weight of a restored endpoint in ten steps"),
    Feature.STICKY: emulated("`sticky route` with the endpoints' ids, and a map with the cookie"),
    Feature.POOL_HTTP2: emulated(
        "endpoints get the request's host in the field `host`, not in `:authority`, which nginx leaves out then"
    ),
    Feature.PROXY_PROTOCOL_OUT: refused("nginx sends no PROXY header to HTTP endpoints"),
    Feature.ACCESS_LOG: emulated(
        "nginx's own times and lists of tries, which `lbgen logs` translates to the schema; bytes include the framing "
        "of chunks and a 100 Continue, and an endpoint's 499 without a body counts as a client that left"
    ),
    Feature.METRICS: emulated("`lbgen agent` counts the lines of a second log"),
    Feature.METRICS_L4: emulated("`lbgen agent` counts the lines of a log of connections"),
    Feature.ESCAPE_HATCH: UNPORTABLE,
    Feature.DIRECT: refused("it forwards bytes itself, so replies come back through it"),
}

_H2_FIELDS = habit(
    f"{_MALFORMED.note}; before 1.31 nginx drops the fields of a connection from a request over HTTP/2, which 1.31 "
    "refuses",
    {"framing.h2_headers": f"{AT_TIMES}accepted"},
)
# nginx before 1.30.
_OLD_UPSTREAMS: dict[Feature, Verdict] = {
    Feature.HEALTH_ACTIVE: habit(
        f"{_AGENT}, but nginx before 1.28 closes idle client connections on a reload (up to ten times in a slow "
        "start): requests just sent on them get no answer",
        {"pool.health.active.kept": "endpoint"},
    ),
    Feature.STICKY: emulated("a map from the cookie to an upstream of that endpoint, whose backups are the others"),
    Feature.FRAMING: habit(
        f"{_H2_FIELDS.note}, and before 1.30 it refuses one with a `host` field beside :authority",
        {**dict(_H2_FIELDS.differs), "framing.h2_host": "other"},
    ),
    Feature.POOL_HTTP2: emulated("nginx's gRPC module carries any request over HTTP/2"),
}

SUPPORT: dict[str, dict[Feature, Verdict]] = {
    NEW: _COMMON,
    "1.30": _COMMON | {Feature.FRAMING: _H2_FIELDS},
    "1.26": _COMMON | _OLD_UPSTREAMS,
    OLD: _COMMON
    | _OLD_UPSTREAMS
    | {
        **{Feature(feature): _ONE_LINE for feature in _HEADERS},
        Feature.REQUEST_HEADERS_ADD: _OLD_ADD,
        Feature.RATE_LIMIT: _FIRST_COUNTS,
        Feature.CONCURRENCY: _FIRST_COUNTS,
    },
}
