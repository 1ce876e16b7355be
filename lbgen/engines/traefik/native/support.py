"""Verdicts of a Traefik without the plugin, where they are not those of the one with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import AT_TIMES, NATIVE, approximate, emulated, refused
from lbgen.engines.difference_shows import where_lines_remain, where_no_rule_may_match, where_redirects_vary
from lbgen.engines.traefik.support import SUPPORT
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.api import Verdict
    from lbgen.plan.model import Plan

_WITH_PLUGIN = "; with a guarantee of `contract` the lbgen plugin can"

_NATIVE = (
    Feature.TRUSTED_PROXIES,
    Feature.HOST_EXACT,
    Feature.HOST_WILDCARD,
    Feature.PATH_EXACT,
    Feature.PATH_PREFIX,
    Feature.PATH_REGEX,
    Feature.METHOD,
    Feature.HEADER,
    Feature.HEADER_PRESENT,
    Feature.PRIORITY,
    Feature.REQUEST_HEADERS_SET,
    Feature.REQUEST_HEADERS_REMOVE,
    Feature.RESPONSE_HEADERS_SET,
    Feature.RESPONSE_HEADERS_REMOVE,
    Feature.SPLIT,
    Feature.SPLIT_HEADERS,
    Feature.REWRITE_PREFIX,
    Feature.REWRITE_PATH,
    Feature.REWRITE_HOST,
    Feature.WEBSOCKET,
    Feature.CONCURRENCY,
    Feature.TIMEOUT_CONNECT,
    Feature.TIMEOUT_RESPONSE,
    Feature.ROUND_ROBIN,
    Feature.LEAST_CONNECTIONS,
    Feature.SOURCE_HASH,
    Feature.SOURCE_HASH_WEIGHTED,
    Feature.WEIGHTS,
    Feature.DRAIN,
    Feature.KEEPALIVE,
    Feature.KEEPALIVE_IDLE,
    Feature.POOL_TLS,
    Feature.POOL_HTTP2,
    Feature.POOL_GRPC,
)

_QUERY_SAYS = "any of repeated parameters matches, names and values are decoded, and `+` stands for a space"
_WHOLE = "requests and responses are both read whole before they are sent on"
_WHOLE_SHOWN = ("open", "closed", "time", "text: ")


def _any_of(feature: Feature, says: str) -> Verdict:
    return approximate(says, {f"{feature}.routes": ("text: an endpoint answered", "status 404")})


_SUPPORT: dict[Feature, Verdict] = {
    **dict.fromkeys(_NATIVE, NATIVE),
    Feature.LISTENER_ACCESS: approximate(
        "a request that no rule takes gets 404 before the access list is asked",
        {"listener.access.routes": "status 404"},
        when=where_no_rule_may_match,
    ),
    Feature.ROUTE_ACCESS: emulated("access lists on its routers, and routers for the clients that are denied"),
    Feature.MIRROR: approximate(
        "a mirroring service, which keeps the body in memory; handshakes of WebSocket are mirrored too",
        {"route.mirror.tunnels": "text: the handshake went to"},
    ),
    Feature.PROXY_PROTOCOL_IN: approximate(
        "connections without a PROXY header are served too", {"listener.proxy_protocol.routes": "status 200"}
    ),
    Feature.MAX_CONNECTIONS: refused("Traefik limits connections per client address only" + _WITH_PLUGIN),
    Feature.LISTENER_LIMITS: approximate(
        "Traefik has one limit for target and headers together, some 4 KiB above limits.headers; limits.target is not "
        "kept",
        {"listener.limits.routes": ("text: an endpoint answered", "status 404", "status 403", "status 200")},
    ),
    Feature.CLIENT_TIMEOUTS: approximate(
        "the longer of client_header and client_body holds for the whole request, its body included; a request that "
        "is cut by it gets any of 400, 408, 499, 500 and 504",
        {
            "listener.timeouts.routes": (
                "status 400",
                "status 499",
                "status 500",
                "status 504",
                "time",
                "text: expected an answer of pool",
            )
        },
    ),
    Feature.HEADER_REGEX: approximate(
        "each line of a repeated header is matched by itself",
        {"match.headers.regex.routes": ("text: an endpoint answered", "status 404")},
    ),
    Feature.QUERY: _any_of(Feature.QUERY, _QUERY_SAYS),
    Feature.QUERY_REGEX: _any_of(Feature.QUERY_REGEX, _QUERY_SAYS),
    Feature.QUERY_PRESENT: _any_of(Feature.QUERY_PRESENT, _QUERY_SAYS),
    Feature.COOKIE: _any_of(Feature.COOKIE, "any of repeated cookies matches"),
    Feature.COOKIE_REGEX: _any_of(Feature.COOKIE_REGEX, "any of repeated cookies matches"),
    Feature.COOKIE_PRESENT: _any_of(Feature.COOKIE_PRESENT, "any of repeated cookies matches"),
    Feature.HOP_BY_HOP: approximate(
        "`TE: trailers` reaches endpoints, the values of a request's trailers and Proxy-Authorization do not, and an "
        "endpoint that gets `Pragma: no-cache` gets `Cache-Control: no-cache` as well",
        {
            "headers.hop_by_hop.everywhere": (
                "header te: trailers",
                "header proxy-authorization",
                "header cache-control: no-cache",
            )
        },
    ),
    Feature.UNDERSCORES_DROP: approximate(
        "header fields with a dot in their names are dropped too",
        {"headers_with_underscores.drop.others": "header x.dot"},
    ),
    Feature.FORWARDED_HEADERS: approximate(
        "X-Forwarded-Port is the port of the Host header, X-Forwarded-Proto of an upgraded connection is ws or wss",
        {
            "forwarded_headers.everywhere": (
                "header x-forwarded-port",
                "header x-forwarded-proto: ws",
                "header x-forwarded-proto: wss",
            )
        },
    ),
    Feature.REQUEST_ID: approximate(
        "Traefik makes no request id; a client's own X-Request-Id passes",
        {"request_id.everywhere": ("header x-request-id", "text: had the ids")},
    ),
    Feature.REQUEST_HEADERS_ADD: approximate(
        "an added line replaces those of the client",
        {"route.request_headers.add.routes": "text: to the endpoint: x-"},
        where_lines_remain,
    ),
    Feature.RESPONSE_HEADERS_ADD: approximate(
        "an added line replaces those of the endpoint",
        {"route.response_headers.add.routes": "text: answer: "},
        where_lines_remain,
    ),
    Feature.FORWARD: approximate(
        "an endpoint gets X-Real-Ip, X-Forwarded-Server and the other X-Forwarded fields whatever forwarded_headers "
        "says, escapes in upper case, `&` for `;` in a query, and `Accept-Encoding: gzip` from clients that send none, "
        "whose answer is unpacked on the way; a GET is sent again where a kept connection ends before its answer, and "
        "any request whose stream an endpoint of HTTP/2 refuses, with growing pauses and whatever timeouts.response "
        "says; an answer that is cut early may be cut before its head; an answer waits for the end of its request's "
        "body, and now and then one breaks off whose endpoint begins it the moment it has that body (Go issue 40747)",
        {
            "route.forward.everywhere": (
                "header accept-encoding: gzip",
                "header x-forwarded-server",
                "header x-real-ip",
                "spelling",
            ),
            "route.forward.one_attempt": "text: 2 tries",
            "route.forward.cut": "closed",
            "route.forward.upload": f"{AT_TIMES}text: responses were not whole",
        },
    ),
    Feature.REDIRECT: approximate(
        "GET gets 302, or 301 for 301 and 308, other methods 307 or 308; the port and the spelling of the host "
        "stay those of the request where they are not given",
        {"route.redirect.routes": ("status 301", "status 302", "status 307", "status 308", "text: location ")},
        when=where_redirects_vary,
    ),
    Feature.RESPOND: approximate("the body is the status's reason phrase", {"route.respond.routes": "text"}),
    Feature.CORS: approximate(
        "preflights get 200; origins that are not allowed get the other CORS headers, and what is allowed is on every "
        "answer",
        {
            "route.cors.routes": (
                "status 200",
                "header access-control-allow-credentials",
                "header access-control-allow-headers",
                "header access-control-allow-methods",
                "header access-control-allow-origin",
                "header access-control-expose-headers",
                "header access-control-max-age",
                "header vary",
            )
        },
    ),
    Feature.COMPRESSION: approximate(
        "every status but 204 and 304 is compressed, `no-transform` too; only the first line of Accept-Encoding "
        "counts, and a strong ETag stays strong",
        {"route.compression.routes": ("header content-encoding", "header vary", "header etag")},
    ),
    Feature.BUFFERING: approximate(_WHOLE, {"route.buffering.routes": _WHOLE_SHOWN}),
    Feature.MAX_BODY: approximate(_WHOLE, {"route.max_body.routes": _WHOLE_SHOWN}),
    Feature.RATE_LIMIT: approximate(
        "a request over the burst waits for up to half of the time until the next is allowed, and a refused one is "
        "told how long to wait",
        {"route.rate_limit.routes": ("text: of a 429 that nobody asked for", "text: expected 429, text/plain")},
    ),
    Feature.TIMEOUT_IDLE: approximate(
        "Traefik has no idle time: a silent body or tunnel stays open, and counts for least_connections",
        {
            "timeouts.idle.routes": (
                "time",
                "open",
                "text: is still open",
                "text: the client took",
                "text: of 240, expected",
            )
        },
    ),
    Feature.TIMEOUT_REQUEST: refused("Traefik has no time for a whole request" + _WITH_PLUGIN),
    Feature.RETRIES: approximate(
        "a retry may meet the same endpoint; a cause of `reset` or `timeout` makes 502 and 504 of endpoints be retried "
        "too, and both are retried for each other",
        {"route.retries.routes": ("text: ", "status 200", "status 502", "status 504")},
    ),
    Feature.RETRY_BUDGET: refused("Traefik's retries have no budget" + _WITH_PLUGIN),
    Feature.LEAST_CONNECTIONS_WEIGHTED: refused("Traefik's least connections have no weights" + _WITH_PLUGIN),
    Feature.RANDOM: approximate(
        "the less busy of two random endpoints is chosen", {"pool.balance.random.routes": "text: "}
    ),
    Feature.HASH: refused("Traefik hashes clients' addresses only" + _WITH_PLUGIN),
    Feature.BACKUP: refused("Traefik has no backup endpoints" + _WITH_PLUGIN),
    Feature.ENDPOINT_NAMES: approximate("a name is resolved for each new connection, by the system's resolver"),
    Feature.HEALTH_ACTIVE: approximate(
        "one failed check takes an endpoint out, one good check brings it back; good is 200 to 399, or a single status",
        {"pool.health.active.routes": "text: "},
    ),
    Feature.HEALTH_PASSIVE: approximate(
        "failures count within eject_for, whether or not good answers lie between them",
        {"pool.health.passive.routes": "text: "},
    ),
    Feature.MAX_PER_ENDPOINT: refused("Traefik does not limit requests to an endpoint" + _WITH_PLUGIN),
    Feature.QUEUE: refused("Traefik has no queue" + _WITH_PLUGIN),
    Feature.SLOW_START: refused("Traefik has no slow start" + _WITH_PLUGIN),
    Feature.STICKY: approximate(
        "the cookie's value is Traefik's own, so that other engines do not know it, and of a split it holds once the "
        "target is chosen",
        {"pool.sticky.routes": "text: "},
    ),
    Feature.PROXY_PROTOCOL_OUT: refused("Traefik sends PROXY headers on L4 routes only" + _WITH_PLUGIN),
    Feature.METRICS: emulated(
        "`lbgen agent` counts the lines of Traefik's log and writes the access log; as there, a try that Traefik's "
        "connections repeat is not counted, a client that left is counted as 4xx, and what Go's server answers by "
        "itself is not counted"
    ),
    Feature.ACCESS_LOG: approximate(
        "the lines have Traefik's own fields, which lbgen logs reads, and the query is in them; the request id is the "
        "client's own, a try that Traefik's connections repeat is not counted, the host has no port, a client that "
        "left has 499, and what Go's server answers by itself has no line",
        {
            "access_log.routes": (
                "text: the query or a cookie",
                "status 200",
                "text: route ",
                "text: pool ",
                "text: host",
                "text: tries",
                "text: lines",
                "text: statuses",
                "text: bytes",
                "text: request_id",
            ),
            "access_log.cut": ("text: status None", "status 200", "text: bytes", "text: the query or a cookie"),
        },
    ),
}

_NO_H2C_TIMES = refused("Traefik has times for HTTP/2 to endpoints from 3.7 on" + _WITH_PLUGIN)
_HOP_BY_HOP = _SUPPORT[Feature.HOP_BY_HOP]
_OF_VERSION = {
    ("3.6", Feature.HOP_BY_HOP): approximate(
        f"{_HOP_BY_HOP.note}, and `Upgrade: h2c` reaches endpoints",
        {part: (*shown, "header upgrade") for part, shown in _HOP_BY_HOP.differs},
    ),
    ("3.6", Feature.UNDERSCORES_DROP): approximate(
        "header fields with underscores in their names reach the endpoint, as Traefik 3.6 cannot drop them",
        {"headers_with_underscores.drop.everywhere": "text: is there, expected none"},
    ),
    ("3.6", Feature.RETRIES): refused("Traefik's retries know causes from 3.7 on" + _WITH_PLUGIN),
    ("3.6", Feature.SPLIT_HEADERS): refused("Traefik's targets have headers of their own from 3.7 on" + _WITH_PLUGIN),
    ("3.6", Feature.POOL_HTTP2): _NO_H2C_TIMES,
    ("3.6", Feature.POOL_GRPC): _NO_H2C_TIMES,
}

# What L4 routes and their pools may ask for too, which Traefik serves as ever.
_SHARED = frozenset(
    [
        Feature.TIMEOUT_IDLE,
        Feature.LEAST_CONNECTIONS,
        Feature.LEAST_CONNECTIONS_WEIGHTED,
        Feature.RANDOM,
        Feature.HASH,
        Feature.BACKUP,
        Feature.ENDPOINT_NAMES,
        Feature.HEALTH_ACTIVE,
        Feature.HEALTH_PASSIVE,
        Feature.MAX_PER_ENDPOINT,
        Feature.QUEUE,
        Feature.SLOW_START,
        Feature.ROUTE_ACCESS,
        Feature.PROXY_PROTOCOL_IN,
    ]
)


def verdict(plan: Plan, feature: Feature, version: str) -> Verdict:
    """The verdict on a feature of a plan that is served without the plugin."""
    if feature in _SHARED and _asked_by_l4_alone(plan, feature):
        return SUPPORT[version][feature]
    return _OF_VERSION.get((version, feature)) or _SUPPORT.get(feature, SUPPORT[version][feature])


def _asked_by_l4_alone(plan: Plan, feature: Feature) -> bool:
    fields = [use.field for use in plan.uses if use.feature is feature]
    own = tuple(_l4_fields(plan))
    return bool(fields) and all(any(f"{field}.".startswith(f"{each}.") for each in own) for field in fields)


def _l4_fields(plan: Plan) -> Iterator[str]:
    """The listeners, routes and pools that no HTTP request reaches."""
    yield from (listener.field for listener in plan.listeners if listener.mode is Mode.L4)
    level7 = {rule.route for listener in plan.listeners for table in listener.hosts for rule in table.rules}
    yield from (route.field for route in plan.routes if route.name not in level7)
    actions = (plan.route(name).action for name in level7)
    pools = {
        name
        for action in actions
        if isinstance(action, Forward)
        for name in (*(target.pool for target in action.targets), *(mirror.pool for mirror in action.mirrors))
    }
    for pool in plan.pools:
        if pool.name not in pools:
            yield pool.field
            yield from (endpoint.field for endpoint in pool.endpoints)
