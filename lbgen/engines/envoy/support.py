"""Verdicts of Envoy on every feature; those that it has without more are not listed."""

from __future__ import annotations

from lbgen.engines.api import (
    AT_TIMES,
    NATIVE,
    UNPORTABLE,
    Verdict,
    VerdictTable,
    approximate,
    emulated,
    habit,
    refused,
)
from lbgen.engines.conditions import condition_verdicts
from lbgen.engines.envoy.matching import CONDITIONS
from lbgen.plan.features import Feature

_NO_PAGE = {"statuses.grpc": "at times: text"}
_SORTED = emulated("rules are written in order of precedence, and each host's table includes those of wider hosts")
_EDITS = emulated("the edits of a route and its target are merged into one list per target")

_V1_40: dict[Feature, Verdict] = {
    "route.auth.forward": habit(
        "ext_authz, whose questions a Lua filter makes GET and whose every 2xx a 200; of several lines of a field of "
        "the answer the endpoint gets the last; other statuses below 500 go to the client as they are; above, and "
        "where there is no answer, it gets 503; the service has its connect and its response time together; a route's "
        "response_headers are not in what the service refuses with",
        {"route.auth.forward.several": f"{AT_TIMES}header"},
    ),
    "listener.trusted_proxies": emulated(
        "Envoy counts trusted proxies as internal, and removes the forwarded headers of others before routing"
    ),
    **condition_verdicts(CONDITIONS),
    "route.priority": _SORTED,
    "paths.strict": habit(
        "Envoy resolves dot segments, empty segments, backslashes and escapes of unreserved characters before routing "
        "and forwards the path so, with escapes for raw characters such as | and {; other ambiguous escapes get 400",
        {"paths.strict.routes": ("accepted", "spelling", "another rule")},
    ),
    "framing.malformed": habit(
        "ambiguous lengths and codings, a bad Host, more than 1000 header lines and a fragment get a 4xx or a closed "
        "connection; bare LF, folded headers, HTTP/0.9, user information and further blanks in the request line are "
        "read leniently and passed on in clean form; of two Host lines, or a target in absolute form, one host counts; "
        "a response without a length that is reset in the middle ends as if it were whole",
        {
            "framing.malformed.routes": ("accepted", "status 400", "status 403", "status 431", "closed", "text"),
            "framing.malformed.reset_until_close": "whole",
        },
    ),
    "headers.hop_by_hop": habit(
        "`te: trailers` reaches endpoints of HTTP/1.1 too",
        {"headers.hop_by_hop.routes": ("header te", "header trailer")},
    ),
    "headers.connection_nominated": habit(
        "headers that a request's Connection names are dropped, but those of a WebSocket handshake reach the endpoint, "
        "whose Connection names `upgrade` alone; those that a response's Connection names reach the client",
        {"headers.connection_nominated.routes": ("status 400", "header connection")},
    ),
    "forwarded_headers": habit(
        "X-Forwarded-Client-Cert, which proxies send each other, is removed",
        {"forwarded_headers.routes": "header x-forwarded-client-cert"},
    ),
    "forwarded_headers.real_ip": NATIVE,
    "forwarded_headers.forwarded": emulated("a header whose value has CEL expressions for the quotes"),
    "listener.client_ip": emulated("X-Forwarded-For is replaced by the field, and read from the right"),
    "listener.client_ip.forwarded": refused("Envoy reads no address out of Forwarded; HAProxy and Traefik can"),
    "route.request_headers.set": _EDITS,
    "route.request_headers.add": _EDITS,
    "route.request_headers.remove": _EDITS,
    "route.forward.request_headers": _EDITS,
    "route.redirect": habit(
        "a redirect to the request's own host keeps its case, and names a port that is the default",
        {"route.redirect.routes": "header location"},
    ),
    "route.rewrite.prefix": emulated("by a regex where the new prefix is `/` or the old one has escapes"),
    "route.websocket": habit(
        "a response that declines a handshake ends the client's connection where it is a 200, whose body is dropped, "
        "or names an upgrade; a client that asks for an upgrade that Envoy does not know gets 403",
        {
            "route.websocket.routes": ("cut", "closed", "status 403"),
            "route.websocket.upgrade_required": "other",
        },
    ),
    "statuses": habit(
        "Envoy's own answers have its short texts, such as `no healthy upstream`, and none with 404; to a gRPC client "
        "they are 200 with grpc-status, which the access log counts as the HTTP status that it stands for",
        {"statuses.routes": ("text", "status 200", "header grpc-status")},
    ),
    "statuses.failures": habit(
        "503 where a connection fails or an endpoint closes without an answer, 504 where a response is late, 502 where "
        "it is malformed, such as one with both a length and a coding",
        {"statuses.failures.routes": ("status 502", "status 503", "status 504", "text")},
    ),
    "timeouts.connect": emulated("one cluster for each connect timeout of a pool"),
    "timeouts.response": emulated("the timeout of a single try, which ends with the response head"),
    "timeouts.idle": habit(
        "a client that takes nothing of the end of a response for the idle time loses it, over HTTP/2 in any case",
        {"timeouts.idle.routes": "cut"},
    ),
    "pool.balance.least_connections": emulated("requests under way are counted in place of connections"),
    "pool.balance.least_connections.weights": emulated("requests under way divide an endpoint's weight"),
    "pool.balance.source_hash": habit(
        "behind trusted proxies, on listeners with access lists or limits by client, the client's address is hashed",
        {"pool.balance.source_hash.routes": "endpoint"},
    ),
    "pool.weights.zero": emulated("the endpoint is marked as draining"),
    "pool.connections.keepalive": emulated(
        "idle connections are kept without a count; 0 closes each after its request"
    ),
    "listener.tls": emulated("connections are matched by a regex for the server names of the certificates"),
    "listener.tls.client": emulated("no session is resumed, so that every handshake shows the certificate"),
    "listener.access": emulated("an RBAC filter; behind proxies X-Forwarded-For is read from the right"),
    "listener.limits": habit(
        "Envoy counts a head in whole KiB with its request line, and answers 403 to a target that is too long",
        {"listener.limits.routes": ("status 403", "text")},
    ),
    "listener.timeouts": emulated("timers of Envoy; a kept connection is drained in the last seconds of its time"),
    "paths.normalize": habit(
        "an escaped slash gets 400, and hexadecimal digits of escapes keep their case",
        {"paths.normalize.routes": ("status 400", "spelling")},
    ),
    "paths.verbatim": habit(
        "a path whose `..` segments lead above the root passes too", {"paths.verbatim.routes": "accepted"}
    ),
    "route.cors": habit(
        "a preflight is answered with 200, and lists what is allowed whatever it asks for",
        {
            "route.cors.routes": (
                "status 200",
                "header access-control-allow-origin",
                "header access-control-expose-headers",
                "header vary",
            )
        },
    ),
    "route.compression": habit(
        "responses of any status but 206, and those without a type, are compressed too; `Accept-Encoding: *` asks for "
        "gzip, and where `identity` has the higher weight, or gzip is in capitals, nothing is compressed",
        {"route.compression.routes": ("header content-encoding: gzip", "header vary: Accept-Encoding", "header etag")},
    ),
    "route.buffering": emulated("a filter that holds a body in memory and on disk"),
    "route.rate_limit": habit(
        "of several lines of a key's header the first counts, and requests with an empty one share a bucket; a 429 of "
        "a route that responds or redirects lacks the route's `response_headers`",
        {
            "route.rate_limit.by_header": "rate",
            "route.rate_limit.respond": "rate",
            "route.rate_limit.redirect": "rate",
        },
    ),
    "pool.connections.max_per_endpoint": approximate(
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
    "pool.connections.queue": refused("Envoy has no queue with a time of its own"),
    "route.concurrency": refused("Envoy has no limit for requests under way by key"),
    "route.max_body": emulated("one filter for each size, which routes enable"),
    "listener.error_pages": habit("a request of gRPC's media type gets no page", _NO_PAGE),
    "route.error_pages": habit(
        "local replies by route, and a filter in place of endpoints' answers; a request of gRPC's media type gets no "
        "page",
        _NO_PAGE,
    ),
    "route.access": emulated("an RBAC filter that routes enable"),
    "timeouts.request": habit(
        "a request whose body has not come to its end by then gets 408", {"timeouts.request.routes": "status 408"}
    ),
    "route.retries": habit(
        "one route for idempotent methods and one for the others; a body of up to 1 MiB is sent again, a longer "
        "one only with `buffering.request`",
        {"route.retries.routes": ("status 200", "tries")},
    ),
    "pool.balance.random": emulated("with weights, random entries of a Maglev table"),
    "pool.backup": emulated("a second priority, used only when all of the first is down"),
    "pool.health.active": emulated("Envoy's own checks, which read the whole response within `timeout`"),
    "pool.sticky": emulated("a Lua filter that maps an id to the address for Envoy's own session filter, and back"),
    "values": emulated("what no command operator has is kept in metadata by a filter of the route"),
    "values.host": habit(
        "the host keeps the case in which a client writes it where the route's hosts do not name it",
        {"values.host.routes": ("header", "text")},
    ),
    "metrics": emulated("`lbgen agent` counts the lines of a second log"),
    "metrics.l4": emulated("`lbgen agent` counts the lines of a log of connections"),
    # Of what is named above, what the engine has without more.
    "listener.tls.curves": NATIVE,
    "listener.tls.no_sni": NATIVE,
    "listener.tls.passthrough": NATIVE,
    "pool.balance.source_hash.weights": NATIVE,
    "route.retries.budget": NATIVE,
    "engines.verbatim": UNPORTABLE,
    "engines.forwarding.direct": refused("is not there: it forwards bytes itself, so replies come back through it"),
}


# Envoy before 1.40.
_OLD: dict[Feature, Verdict] = {
    "route.max_body": habit(
        "a body is held in memory until it ends or is too large; one that is too large by its stated length is refused "
        "once that much of it has arrived (Envoy 1.40 refuses it at once)",
        {"route.max_body.at_once": ("open", "closed")},
    ),
}
_V1_37: dict[Feature, Verdict] = _OLD | {
    "framing.malformed": approximate(
        f"{_V1_40['framing.malformed'].note}; where a chunk is longer than it says, what follows its length is read as "
        "the next request, which a proxy in front that reads chunks otherwise has not seen (Envoy 1.38 refuses it)",
        dict(_V1_40["framing.malformed"].differs),
    ),
    "route.compression": habit(
        "a compressed response loses a strong ETag (Envoy 1.38 weakens it)", {"route.compression.etag": "header etag"}
    ),
}


TABLES = {
    "1.40": VerdictTable(_V1_40),
    "1.39": VerdictTable(_V1_40 | _OLD),
    "1.38": VerdictTable(_V1_40 | _OLD),
    "1.37": VerdictTable(_V1_40 | _V1_37),
}
