"""Verdicts of Envoy on every feature; those that it has without more are not listed."""

from __future__ import annotations

from lbgen.engines.api import NATIVE, ROUTES, UNPORTABLE, Level, Verdict, approximate, emulated, habit, refused
from lbgen.engines.conditions import condition_verdicts
from lbgen.engines.envoy.matching import CONDITIONS
from lbgen.plan.features import Feature

_SORTED = emulated("rules are written in order of precedence, and each host's table includes those of wider hosts")
_EDITS = emulated("the edits of a route and its target are merged into one list per target")

_V1_40: dict[Feature, Verdict] = {
    Feature.TRUSTED_PROXIES: emulated(
        "Envoy counts trusted proxies as internal, and removes the forwarded headers of others before routing"
    ),
    **condition_verdicts(CONDITIONS),
    Feature.PRIORITY: _SORTED,
    Feature.PATHS_STRICT: habit(
        "Envoy resolves dot segments, empty segments, backslashes and escapes of unreserved characters before routing "
        "and forwards the path so, with escapes for raw characters such as | and {; other ambiguous escapes get 400"
    ),
    Feature.MALFORMED: habit(
        "ambiguous lengths and codings, a bad Host, more than 1000 header lines and a fragment get a 4xx or a closed "
        "connection; bare LF, folded headers, HTTP/0.9, user information and further blanks in the request line are "
        "read leniently and passed on in clean form; of two Host lines, or a target in absolute form, one host counts; "
        "a response without a length that is reset in the middle ends as if it were whole",
        {
            "framing.malformed.routes": ("accepted", "status 400", "status 403", "status 431", "closed", "text"),
            "framing.malformed.reset_until_close": "whole",
        },
    ),
    Feature.HOP_BY_HOP: habit("`te: trailers` reaches endpoints of HTTP/1.1 too"),
    Feature.CONNECTION_NOMINATED: habit(
        "headers that a request's Connection names are dropped, but those of a WebSocket handshake reach the endpoint, "
        "whose Connection names `upgrade` alone; those that a response's Connection names reach the client"
    ),
    Feature.FORWARDED_HEADERS: habit("X-Forwarded-Client-Cert, which proxies send each other, is removed"),
    Feature.REQUEST_HEADERS_SET: _EDITS,
    Feature.REQUEST_HEADERS_ADD: _EDITS,
    Feature.REQUEST_HEADERS_REMOVE: _EDITS,
    Feature.SPLIT_HEADERS: _EDITS,
    Feature.REDIRECT: habit(
        "a redirect to the request's own host keeps its case, and names a port that is the default"
    ),
    Feature.REWRITE_PREFIX: emulated("by a regex where the new prefix is `/` or the old one has escapes"),
    Feature.WEBSOCKET: habit(
        "a response that declines a handshake ends the client's connection where it is a 200, whose body is dropped, "
        "or names an upgrade; a client that asks for an upgrade that Envoy does not know gets 403",
        {
            "route.websocket.routes": ("cut", "closed", "status 403"),
            "route.websocket.upgrade_required": "other",
        },
    ),
    Feature.STATUSES: habit(
        "Envoy's own answers have its short texts, such as `no healthy upstream`, and none with 404; to a gRPC client "
        "they are 200 with grpc-status, which the access log counts as the HTTP status that it stands for"
    ),
    Feature.FAILURES: habit(
        "503 where a connection fails or an endpoint closes without an answer, 504 where a response is late, 502 where "
        "it is malformed, such as one with both a length and a coding"
    ),
    Feature.TIMEOUT_CONNECT: emulated("one cluster for each connect timeout of a pool"),
    Feature.TIMEOUT_RESPONSE: emulated("the timeout of a single try, which ends with the response head"),
    Feature.TIMEOUT_IDLE: habit(
        "a client that takes nothing of the end of a response for the idle time loses it, over HTTP/2 in any case"
    ),
    Feature.LEAST_CONNECTIONS: emulated("requests under way are counted in place of connections"),
    Feature.LEAST_CONNECTIONS_WEIGHTED: emulated("requests under way divide an endpoint's weight"),
    Feature.SOURCE_HASH: habit(
        "behind trusted proxies, on listeners with access lists or limits by client, the client's address is hashed"
    ),
    Feature.DRAIN: emulated("the endpoint is marked as draining"),
    Feature.KEEPALIVE: emulated("idle connections are kept without a count; 0 closes each after its request"),
    Feature.TLS_TERMINATE: emulated("connections are matched by a regex for the server names of the certificates"),
    Feature.TLS_CLIENT_CERT: emulated("no session is resumed, so that every handshake shows the certificate"),
    Feature.LISTENER_ACCESS: emulated("an RBAC filter; behind proxies X-Forwarded-For is read from the right"),
    Feature.LISTENER_LIMITS: habit(
        "Envoy counts a head in whole KiB with its request line, and answers 403 to a target that is too long"
    ),
    Feature.CLIENT_TIMEOUTS: emulated("timers of Envoy; a kept connection is drained in the last seconds of its time"),
    Feature.PATHS_NORMALIZE: habit("an escaped slash gets 400, and hexadecimal digits of escapes keep their case"),
    Feature.PATHS_VERBATIM: habit("a path whose `..` segments lead above the root passes too"),
    Feature.CORS: habit("a preflight is answered with 200, and lists what is allowed whatever it asks for"),
    Feature.COMPRESSION: habit(
        "responses of any status but 206, and those without a type, are compressed too; `Accept-Encoding: *` asks for "
        "gzip, and where `identity` has the higher weight, or gzip is in capitals, nothing is compressed"
    ),
    Feature.BUFFERING: emulated("a filter that holds a body in memory and on disk"),
    Feature.RATE_LIMIT: habit(
        "of several lines of a key's header the first counts, and requests with an empty one share a bucket; a 429 of "
        "a route that responds or redirects lacks the route's `response_headers`",
        {
            "route.rate_limit.by_header": "rate",
            "route.rate_limit.respond": "rate",
            "route.rate_limit.redirect": "rate",
        },
    ),
    Feature.MAX_PER_ENDPOINT: approximate(
        "Envoy bounds the connections of an endpoint: a request for which it has chosen a full endpoint waits there, "
        "whether others are free or not, and each worker may open one more",
        dict.fromkeys(
            (
                f"pool.connections.max_per_endpoint{part}"
                for part in (
                    "",
                    ".503_at_once",
                    ".beside_checks",
                    ".all_endpoints",
                    ".chosen",
                    ".routes",
                    ".copies",
                    ".tries",
                )
            ),
            ("at times: time", "at times: status 200", "at times: places"),
        ),
    ),
    Feature.QUEUE: refused("Envoy has no queue with a time of its own"),
    Feature.CONCURRENCY: refused("Envoy has no limit for requests under way by key"),
    Feature.MAX_BODY: emulated("one filter for each size, which routes enable"),
    Feature.ROUTE_ACCESS: emulated("an RBAC filter that routes enable"),
    Feature.TIMEOUT_REQUEST: habit("a request whose body has not come to its end by then gets 408"),
    Feature.RETRIES: habit(
        "one route for idempotent methods and one for the others; a body of up to 1 MiB is sent again, a longer "
        "one only with `buffering.request`"
    ),
    Feature.RANDOM: emulated("with weights, random entries of a Maglev table"),
    Feature.BACKUP: emulated("a second priority, used only when all of the first is down"),
    Feature.HEALTH_ACTIVE: emulated("Envoy's own checks, which read the whole response within `timeout`"),
    Feature.STICKY: emulated("a Lua filter that maps an id to the address for Envoy's own session filter, and back"),
    Feature.METRICS: emulated("`lbgen agent` counts the lines of a second log"),
    Feature.METRICS_L4: emulated("`lbgen agent` counts the lines of a log of connections"),
    Feature.ESCAPE_HATCH: UNPORTABLE,
    Feature.DIRECT: refused("is not there: it forwards bytes itself, so replies come back through it"),
}


# What the habits above show, in any request of a route that uses the feature.
_SHOWS: dict[Feature, tuple[str, ...]] = {
    Feature.PATHS_STRICT: ("accepted", "spelling", "another rule"),
    Feature.CONNECTION_NOMINATED: ("status 400", "header connection"),
    Feature.HOP_BY_HOP: ("header te", "header trailer"),
    Feature.FORWARDED_HEADERS: ("header x-forwarded-client-cert",),
    Feature.STATUSES: ("text", "status 200", "header grpc-status"),
    Feature.FAILURES: ("status 502", "status 503", "status 504", "text"),
    Feature.TIMEOUT_IDLE: ("cut",),
    Feature.TIMEOUT_REQUEST: ("status 408",),
    Feature.SOURCE_HASH: ("endpoint",),
    Feature.LISTENER_LIMITS: ("status 403", "text"),
    Feature.PATHS_NORMALIZE: ("status 400", "spelling"),
    Feature.PATHS_VERBATIM: ("accepted",),
    Feature.CORS: ("status 200", "header access-control-allow-origin", "header vary"),
    Feature.RETRIES: ("status 200", "tries"),
    Feature.REDIRECT: ("header location",),
    Feature.COMPRESSION: ("header content-encoding: gzip", "header vary: Accept-Encoding", "header etag"),
}


# Envoy before 1.40.
_OLD: dict[Feature, Verdict] = {
    Feature.MAX_BODY: habit(
        "a body is held in memory until it ends or is too large; one that is too large by its stated length is refused "
        "once that much of it has arrived (Envoy 1.40 refuses it at once)",
        {"route.max_body.at_once": ("open", "closed")},
    ),
}
_V1_37: dict[Feature, Verdict] = _OLD | {
    Feature.MALFORMED: approximate(
        f"{_V1_40[Feature.MALFORMED].note}; where a chunk is longer than it says, what follows its length is read as "
        "the next request, which a proxy in front that reads chunks otherwise has not seen (Envoy 1.38 refuses it)",
        dict(_V1_40[Feature.MALFORMED].differs),
    ),
    Feature.COMPRESSION: habit(
        "a compressed response loses a strong ETag (Envoy 1.38 weakens it)", {"route.compression.etag": "header etag"}
    ),
}


def verdict(feature: Feature, version: str) -> Verdict:
    """The verdict of `version` on `feature`."""
    return TABLES[version][feature]


def _add_parts(verdicts: dict[Feature, Verdict]) -> dict[Feature, Verdict]:
    shown = {feature: verdict for feature, verdict in verdicts.items() if verdict.level is Level.HABIT}
    made = {
        feature: habit(verdict.note, {f"{feature}{ROUTES}": _SHOWS[feature]})
        for feature, verdict in shown.items()
        if not verdict.differs
    }
    return verdicts | made


_TABLE: dict[Feature, Verdict] = _add_parts({feature: _V1_40.get(feature, NATIVE) for feature in Feature})
TABLES = {"1.40": _TABLE, "1.39": _TABLE | _OLD, "1.38": _TABLE | _OLD, "1.37": _TABLE | _V1_37}
