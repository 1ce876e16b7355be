"""nginx's verdict on every feature, by version; what it has without more is not listed."""

from __future__ import annotations

from msgspec import Struct

from lbgen.engines.api import AT_TIMES, NATIVE, UNPORTABLE, Verdict, VerdictTable, approximate, emulated, habit, refused
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

_COMMON: dict[Feature, Verdict] = {
    "route.auth.forward": habit(
        "a request that the service refuses is sent to it a second time, by which the client gets the answer; several "
        "lines of a field of its answer become one; a refused request with a body of 1 MB or more gets 401, or 413 "
        "where it names no length, without that answer; where the service gives another status or none, the client "
        "gets 500; a route's response_headers are not in what the service refuses with",
        {"route.auth.forward.several": f"{AT_TIMES}header"},
    ),
    "route.auth.jwt": refused(
        "nginx verifies no tokens; `auth: { forward: ... }` asks a service that does; HAProxy and Envoy can"
    ),
    "listener.tls": emulated("a server block for each name of a certificate or a host"),
    "listener.tls.client": habit(
        "a client without a valid certificate gets 400 after the handshake",
        {"listener.tls.client.refusal": ("status 400", "status 421")},
    ),
    "listener.http2": habit(
        "nginx sends no 100 Continue over HTTP/2: a client that waits for it without a limit, as Java's HttpClient "
        "with expectContinue(true) does, never sends its body",
        {"listener.http2.expect": "other"},
    ),
    "listener.max_connections": refused("nginx limits connections on L4 listeners only; for HTTP it limits requests"),
    "listener.access": emulated("a geo block with the verdict for each network"),
    "listener.limits": emulated("a head may be up to twice as long as limits.headers; nginx answers 400, 414 or 431"),
    "listener.trusted_proxies": emulated("a geo block for the trusted networks and a map per header"),
    "listener.client_ip.forwarded": refused("nginx reads no address out of Forwarded; HAProxy and Traefik can"),
    "listener.address.dual_stack": emulated("one socket for IPv4 and one for IPv6"),
    **condition_verdicts(CONDITIONS),
    "route.priority": emulated("the order of the rules is computed when nginx.conf is rendered"),
    "match.sni": emulated("a map over the server name in the order of the rules"),
    "route.sources": emulated("a geo block per set of networks, and a map in the order of the rules"),
    "paths.strict": emulated("a map over the target, tested before any location"),
    "paths.allow": emulated("rules test the raw path"),
    "paths.normalize": habit(
        "nginx's own normal form; a path that needs normalising and an escape is answered with 400",
        {"paths.normalize.escapes": "status 400"},
    ),
    "paths.verbatim": emulated("rules test the raw path"),
    "framing": _MALFORMED,
    "framing.malformed": _MALFORMED,
    "headers.connection_nominated": emulated(
        "a request whose Connection header names other fields than those of one connection is answered with 400; "
        "fields that the Connection header of a response names reach the client"
    ),
    "headers_with_underscores.drop": habit(
        "fields whose names contain other characters than letters, digits and hyphens, such as dots, are dropped too",
        {"headers_with_underscores.drop.others": "header x.dot"},
    ),
    "headers_with_underscores.pass": habit(
        "nginx reads a header and its spellings with `_` for `-` or `-` for `_` from one variable, and drops fields "
        "whose names contain further characters, such as dots",
        {"headers_with_underscores.pass.rules": "pool", "headers_with_underscores.pass.others": "header x.dot"},
    ),
    "route.request_headers.add": emulated("the header is set to the client's value and the added line"),
    "route.response_headers.set": emulated("the endpoint's header is hidden and another one added"),
    "route.forward.split": emulated("a random choice per request, in steps of 0.01 %"),
    "values": emulated("nginx's own variables, and maps for what they do not have as it was sent"),
    "route.forward.request_headers": emulated("a map from the selected pool to the header's value"),
    "route.redirect": emulated("`return`, with nginx's own HTML page as the body"),
    "route.respond": emulated(
        "`return`; nginx answers `If-None-Match: *` with 304, and If-Match or If-Unmodified-Since with 412, for a 200"
    ),
    "route.rewrite.prefix": emulated("a map over the raw target, since nginx's own rewriting decodes it"),
    "route.mirror": habit(
        "the body of a request is read whole before it is sent on; while a copy waits for its endpoint, at most 1 s, "
        "nginx neither serves the next request of the client's HTTP/1 connection nor closes it; connections of copies "
        "are not kept",
        {"route.mirror.upload": "other", "route.mirror.kept": "time"},
    ),
    "route.cors": emulated(
        "maps over Origin; a preflight of an allowed origin gets the whole policy, whatever it asks for"
    ),
    "route.compression": habit(
        "responses of 403 and 404 and of text/html are compressed as well, no-transform is ignored, and the first of "
        "several Accept-Encoding lines applies",
        {
            "route.compression.lines": ("text", "header content-encoding", "header vary"),
            "route.compression.html": ("text", "header content-encoding", "header vary"),
            "route.compression.no_transform": ("text", "header content-encoding", "header vary"),
            "route.compression.status": ("text", "header content-encoding", "header vary"),
        },
    ),
    "route.buffering": emulated(
        "responses are buffered where no listener has TLS, unless `buffering: { response: false }`, the endpoint's "
        "X-Accel-Buffering: no or compression asks otherwise: chunked ones and those of gRPC flow, others wait for a "
        "full buffer (20 KiB); beside TLS they are buffered where `buffering: { response: true }` asks, as nginx's TLS "
        "holds what it buffers back over HTTP/1.1"
    ),
    "statuses": emulated("nginx's own HTML pages with `Server: nginx`; 400 or 414 for a large head"),
    "statuses.failures": _FAILURES,
    "listener.error_pages": emulated("`error_page` leads to named locations, which answer with the page"),
    "route.error_pages": emulated(
        "`error_page` leads to named locations, which answer with the page; a page in place of an endpoint's 500 or "
        "501 ends the client's connection"
    ),
    "route.max_body": emulated(
        "a map over Content-Length in addition to nginx's own limit, which named locations do not apply to it"
    ),
    "route.access": emulated("a geo block with the verdict for each network"),
    "timeouts.request": refused("nginx has no limit on the total time of a request"),
    "route.retries": habit(
        "each endpoint is tried once at most; nginx cannot tell a refused connection from one that breaks, nor the "
        "time to connect from the time to respond, so it retries both; what was sent already it repeats for all "
        "methods but POST, PATCH and LOCK, and only without a body or with one that came with the head or is "
        "buffered (buffering.request)",
        {
            "route.retries.each_once": (f"{AT_TIMES}status 502", f"{AT_TIMES}tries", f"{AT_TIMES}time"),
            "route.retries.broken": "tries",
            "route.retries.unknown_methods": "tries",
        },
    ),
    "route.retries.budget": refused("nginx does not relate retries to requests"),
    "pool.endpoint_names": emulated(
        "nginx's own resolver, which asks the DNS servers of `resolvers` alone: names that only /etc/hosts holds are "
        "unknown to it, but for localhost, which is 127.0.0.1 here"
    ),
    "pool.health.active": emulated(_AGENT),
    "pool.health.passive": approximate(
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
    "pool.connections.queue": refused("nginx has no queue for requests"),
    "pool.slow_start": emulated("`lbgen agent` raises the weight of a restored endpoint in ten steps"),
    "pool.sticky": emulated("`sticky route` with the endpoints' ids, and a map with the cookie"),
    "pool.protocol.http2": emulated(
        "endpoints get the request's host in the field `host`, not in `:authority`, which nginx leaves out then"
    ),
    "pool.proxy_protocol": refused("nginx sends no PROXY header to HTTP endpoints"),
    "access_log": emulated(
        "nginx's own times and lists of tries, which `lbgen logs` translates to the schema; bytes include the framing "
        "of chunks and a 100 Continue, and an endpoint's 499 without a body counts as a client that left"
    ),
    "metrics": emulated("`lbgen agent` counts the lines of a second log"),
    "metrics.l4": emulated("`lbgen agent` counts the lines of a log of connections"),
    # Of what is named above, what the engine has without more.
    "access_log.l4": NATIVE,
    "listener.max_connections.l4": NATIVE,
    "listener.tls.curves": NATIVE,
    "listener.tls.no_sni": NATIVE,
    "listener.tls.passthrough": NATIVE,
    "pool.proxy_protocol.l4": NATIVE,
    "engines.verbatim": UNPORTABLE,
    "engines.forwarding.direct": refused("it forwards bytes itself, so replies come back through it"),
}

_H2_FIELDS = habit(
    f"{_MALFORMED.note}; before 1.31 nginx drops the fields of a connection from a request over HTTP/2, which 1.31 "
    "refuses",
    {"framing.h2_headers": f"{AT_TIMES}accepted"},
)
# nginx before 1.30.
_OLD_UPSTREAMS: dict[Feature, Verdict] = {
    "pool.health.active": habit(
        f"{_AGENT}, but nginx before 1.28 closes idle client connections on a reload (up to ten times in a slow "
        "start): requests just sent on them get no answer",
        {"pool.health.active.kept": "endpoint"},
    ),
    "pool.sticky": emulated("a map from the cookie to an upstream of that endpoint, whose backups are the others"),
    "framing": habit(
        f"{_H2_FIELDS.note}, and before 1.30 it refuses one with a `host` field beside :authority",
        {**dict(_H2_FIELDS.differs), "framing.h2_host": "other"},
    ),
    "pool.protocol.http2": emulated("nginx's gRPC module carries any request over HTTP/2"),
}

_BY_VERSION: dict[str, dict[Feature, Verdict]] = {
    NEW: _COMMON,
    "1.30": _COMMON | {"framing": _H2_FIELDS},
    "1.26": _COMMON | _OLD_UPSTREAMS,
    OLD: _COMMON
    | _OLD_UPSTREAMS
    | {
        **dict.fromkeys(_HEADERS, _ONE_LINE),
        "route.request_headers.add": _OLD_ADD,
        "route.rate_limit": _FIRST_COUNTS,
        "route.concurrency": _FIRST_COUNTS,
    },
}

SUPPORT = {version: VerdictTable(table) for version, table in _BY_VERSION.items()}
