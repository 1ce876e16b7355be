"""Every feature of the contract -> what nginx makes of it, by version."""

from __future__ import annotations

from lbgen.engines.api import NATIVE, UNPORTABLE, Verdict, approximate, emulated, refused
from lbgen.plan.features import Feature

NEW, OLD = "1.31", "1.22"

_MAPS = emulated("locations for paths, and maps of regexes that choose among the rules of one location")
_RAW_QUERY = emulated("regexes over the raw query, since nginx's own $arg_ variables ignore case and decode nothing")
_RAW_COOKIE = emulated("regexes over the raw Cookie header, since nginx's own $cookie_ variables ignore case")
_ONE_LINE = approximate(
    "of a header sent on several lines nginx 1.22 sees the first line only",
    {
        "match.headers.lines": "status 404",
        "match.headers.regex.lines": "status 404",
        "match.headers.present.lines": "status 404",
    },
)
_OLD_ADD = approximate(
    "of a header that the client sends on several lines nginx 1.22 keeps the first line only",
    {"route.request_headers.add.lines": "header x-tag"},
)

NOMINATED = (
    "a request whose Connection header names anything but the standard hop-by-hop fields is answered with 400 instead "
    "of being forwarded without the fields it names"
)

_AGENT = "`lbgen agent` checks, writes the lists of endpoints anew and has nginx load them"

_MALFORMED = (
    "lines that end with a bare LF and control characters in header values are accepted, HTTP/0.9 gets the text "
    "Bad Request without a head; frames of HTTP/2 for streams that nobody opened, or above the agreed size, are "
    "ignored; a PROXY header whose addresses are of the other family than it says is believed; of X-Forwarded-For, "
    "where it counts, an address with a port is read as that address; of a request whose target nginx cannot read the "
    "access log does not know the host; where a route has retries, a body without a length is read whole before it "
    "goes on; a line without a colon is a field without a value, and fields whose names are none are dropped; several "
    "equal lengths are refused"
)
_BROKEN = {
    "framing.malformed.no_colon": "accepted",
    "framing.malformed.field_names": "accepted",
    "framing.malformed.equal_lengths": "status 400",
    "framing.malformed.bare_lf": "accepted",
    "framing.malformed.control": "accepted",
    "framing.malformed.h2_frames": "open",
    "framing.malformed.proxy_family": "status 200",
    "framing.malformed.proxy_family_four": "status 200",
    "framing.malformed.forwarded_port": "status 403",
    "framing.malformed.log_bad_escape": "text: host ''",
    "framing.malformed.log_unread": "text: host ''",
    "framing.malformed.unsized_flows": "text: no byte of the body",
}

_COMMON: dict[Feature, Verdict] = {
    Feature.L7: NATIVE,
    Feature.L4_TCP: NATIVE,
    Feature.L4_UDP: NATIVE,
    Feature.TLS_NO_SNI: NATIVE,
    Feature.TLS_TERMINATE: emulated("a server block for each name that a certificate or a route knows"),
    Feature.TLS_CLIENT_CERT: emulated("the connection is closed where nginx itself would answer with 400"),
    Feature.TLS_PASSTHROUGH: NATIVE,
    Feature.HTTP2: NATIVE,
    Feature.PROXY_PROTOCOL_IN: NATIVE,
    Feature.MAX_CONNECTIONS: refused("nginx can count requests of HTTP clients, and connections on L4 listeners only"),
    Feature.L4_MAX_CONNECTIONS: NATIVE,
    Feature.LISTENER_ACCESS: emulated("a geo block that knows the answer for each network"),
    Feature.LISTENER_LIMITS: emulated(
        "maps over the lengths of the target and of the whole head, which a script (njs) adds up over HTTP/2"
    ),
    Feature.CLIENT_TIMEOUTS: NATIVE,
    Feature.TRUSTED_PROXIES: emulated("a geo block for the trusted networks and a map for each header"),
    Feature.DUAL_STACK: emulated("one socket for IPv4 and one for IPv6"),
    Feature.HOST_EXACT: NATIVE,
    Feature.HOST_WILDCARD: NATIVE,
    Feature.PATH_EXACT: NATIVE,
    Feature.PATH_PREFIX: emulated("two locations, one for the path alone and one for what lies below"),
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
    Feature.PRIORITY: emulated("the order of the rules is worked out beforehand"),
    Feature.L4_SNI: emulated("a map over the server name in the order of the rules"),
    Feature.L4_SOURCES: emulated("a geo block for each set of networks, and a map in the order of the rules"),
    Feature.PATHS_STRICT: emulated("a regex over the request line, tested before any location"),
    Feature.PATHS_ALLOW: emulated("rules look at the path as it was sent"),
    Feature.PATHS_NORMALIZE: emulated("a script (njs) that writes the normal form of paths that are not in it already"),
    Feature.PATHS_VERBATIM: emulated("rules look at the path as it was sent"),
    Feature.FRAMING: emulated("a regex over Host and the request line, beside nginx's own parser"),
    Feature.MALFORMED: approximate(_MALFORMED, _BROKEN | {"framing.malformed.forwarded_brackets": "status 403"}),
    Feature.HOP_BY_HOP: NATIVE,
    Feature.CONNECTION_NOMINATED: emulated(
        "a second form of each location that forwards, with the fields that a script (njs) leaves"
    ),
    Feature.UNDERSCORES_DROP: approximate(
        "fields whose names hold other characters than letters, digits and hyphens, such as dots, are dropped as well",
        {"headers_with_underscores.drop.others": ("text: x.dot is missing", "text: x.dot: None")},
    ),
    Feature.UNDERSCORES_PASS: NATIVE,
    Feature.FORWARDED_HEADERS: NATIVE,
    Feature.REQUEST_ID: NATIVE,
    Feature.REQUEST_HEADERS_SET: NATIVE,
    Feature.REQUEST_HEADERS_ADD: emulated("the header is written anew: the client's value, then the added line"),
    Feature.REQUEST_HEADERS_REMOVE: NATIVE,
    Feature.RESPONSE_HEADERS_SET: emulated("the endpoint's header is hidden and a new one added"),
    Feature.RESPONSE_HEADERS_ADD: NATIVE,
    Feature.RESPONSE_HEADERS_REMOVE: NATIVE,
    Feature.FORWARD: NATIVE,
    Feature.SPLIT: emulated("a random choice for each request, in steps of 0.01 %"),
    Feature.SPLIT_HEADERS: emulated("a map from the chosen pool to the header's value"),
    Feature.REDIRECT: NATIVE,
    Feature.RESPOND: NATIVE,
    Feature.REWRITE_PREFIX: emulated("a map over the raw target, since nginx's own rewriting decodes it"),
    Feature.REWRITE_PATH: NATIVE,
    Feature.REWRITE_HOST: NATIVE,
    Feature.MIRROR: NATIVE,
    Feature.CORS: emulated("maps over Origin and what a preflight asks"),
    Feature.COMPRESSION: approximate(
        "answers of 403 and 404 and those of text/html are compressed as well, no-transform is not heeded, and of "
        "several Accept-Encoding lines the first one counts",
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
    Feature.FAILURES: approximate(
        "bytes of an endpoint that are no HTTP go to the client as they are, not as 502; answers that nginx makes "
        "carry `Server: nginx`, as do those of HTTP/2 endpoints that send no Server header",
        {
            "statuses.failures.garbage": ("no http", "text: tries reached", "text: tries went to"),
            "statuses.failures.server": "header server: nginx",
        },
    ),
    Feature.RATE_LIMIT: NATIVE,
    Feature.CONCURRENCY: NATIVE,
    Feature.MAX_BODY: emulated(
        "a map over Content-Length beside nginx's own limit, which a named location does not ask for it"
    ),
    Feature.ROUTE_ACCESS: emulated("a geo block that knows the answer for each network"),
    Feature.TIMEOUT_CONNECT: NATIVE,
    Feature.TIMEOUT_RESPONSE: NATIVE,
    Feature.TIMEOUT_IDLE: NATIVE,
    Feature.TIMEOUT_REQUEST: refused("nginx has no limit on the whole time of a request"),
    Feature.RETRIES: emulated("a location for each try, and a map from what went wrong to the next one"),
    Feature.RETRY_BUDGET: refused("nginx does not count retries against requests"),
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
    Feature.ENDPOINT_NAMES: NATIVE,
    Feature.ENDPOINT_IPV6: NATIVE,
    Feature.HEALTH_ACTIVE: emulated(_AGENT),
    Feature.HEALTH_PASSIVE: approximate(
        "answers of 5xx are not counted; a success in between does not start the count anew, only eject_for without "
        "a failure does; an endpoint that came back is out again after one failure; and eject_for is up to a second "
        "longer, in whole seconds",
        {
            "pool.health.passive.5xx": "text: 500: ",
            "pool.health.passive.every_5xx": ("text: 501: ", "text: 505: "),
            "pool.health.passive.in_a_row": "text: two failures and a success",
            "pool.health.passive.in_time": "text: back after",
            "pool.health.passive.anew": "text: one failure after it came back",
        },
    ),
    Feature.KEEPALIVE: NATIVE,
    Feature.MAX_PER_ENDPOINT: NATIVE,
    Feature.QUEUE: emulated("a script (njs) lets a request wait that finds no endpoint"),
    Feature.SLOW_START: emulated("`lbgen agent` raises the weight of an endpoint that came back by tenths"),
    Feature.STICKY: emulated("the endpoints' ids as their routes, and a map that makes the cookie"),
    Feature.POOL_TLS: NATIVE,
    Feature.POOL_HTTP2: NATIVE,
    Feature.POOL_GRPC: NATIVE,
    Feature.PROXY_PROTOCOL_OUT: refused("nginx sends no PROXY header where it speaks HTTP"),
    Feature.L4_PROXY_PROTOCOL_OUT: NATIVE,
    Feature.ACCESS_LOG: emulated("nginx's own times and lists of tries, which `lbgen logs` brings into the schema"),
    Feature.ESCAPE_HATCH: UNPORTABLE,
    Feature.NFT_DIRECT: refused("direct forwarding is nftables' alone"),
}

SUPPORT: dict[str, dict[Feature, Verdict]] = {
    NEW: _COMMON,
    OLD: _COMMON
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
        Feature.QUEUE: refused("nginx 1.22 does not let requests wait for an endpoint"),
        Feature.PATHS_NORMALIZE: approximate(
            "a path that has something to normalise and an escape that has to stay as well is answered with 400",
            {"paths.normalize.escapes": "status 400"},
        ),
        Feature.CONNECTION_NOMINATED: approximate(
            NOMINATED + "; nginx 1.22 reads the first Connection line only and forwards what further ones name; what "
            "the Connection of a response names reaches the client",
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
        Feature.HEALTH_ACTIVE: approximate(
            f"{_AGENT}, but nginx 1.22 closes kept connections of clients when it does (so up to ten times in a "
            "slow start): requests just sent on them get no answer",
            {"pool.health.active.kept": "text: answers on kept connections: {'200"},
        ),
        Feature.STICKY: emulated("a map from the cookie to an upstream of that one endpoint"),
        Feature.POOL_HTTP2: emulated("nginx's gRPC module, which carries any request over HTTP/2"),
        Feature.ENDPOINT_NAMES: refused("nginx resolves names while it runs from 1.27.3 on"),
    },
}
