"""Verdicts of Traefik on every feature; those that it has without more are not listed."""

from __future__ import annotations

from lbgen.engines.api import AT_TIMES, NATIVE, UNPORTABLE, Verdict, VerdictTable, approximate, emulated, habit, refused
from lbgen.engines.conditions import condition_verdicts
from lbgen.engines.difference_shows import (
    where_no_rule_may_match,
    where_one_way_is_buffered,
    where_static_lines_remain,
)
from lbgen.engines.traefik.matching import CONDITIONS
from lbgen.plan.features import Feature

_SUPPORT: dict[Feature, Verdict] = {
    "route.auth.forward": habit(
        "forwardAuth asks by way of the entry point for this host alone, whose routers lead to the pool, and the "
        "service sees Go's User-Agent and Accept-Encoding; every other status goes to the client as it is, an answer "
        "over 1 MiB is 401, and where there is none, the client gets 502, 504 or 500",
        {"route.auth.forward.several": f"{AT_TIMES}header"},
    ),
    "route.auth.jwt": refused(
        "Traefik verifies no tokens; `auth: { forward: ... }` asks a service that does; HAProxy and Envoy can"
    ),
    **condition_verdicts(CONDITIONS),
    "listener.proxy_protocol": habit(
        "connections without a PROXY header are served too", {"listener.proxy_protocol.routes": "status 200"}
    ),
    "listener.max_connections": refused("Traefik limits connections per client address only; HAProxy and Envoy can"),
    "listener.max_connections.l4": refused(
        "Traefik limits TCP connections per client address only; nginx, HAProxy and Envoy can"
    ),
    "listener.access": habit(
        "a request that no rule takes gets 404 before the access list is asked",
        {"listener.access.routes": "status 404"},
        when=where_no_rule_may_match,
    ),
    "listener.limits": habit(
        "headers alone may be as long as target and headers together, and 4 KiB longer",
        {"listener.limits.routes": ("accepted", "status 404", "status 403", "status 200")},
    ),
    "listener.timeouts": habit(
        "heads and bodies share one time, which is ten times the longer of client_header and client_body, as Traefik "
        "cannot tell slow uploads from silent ones; a client that is slower gets any of 400, 408, 499, 500 and 504",
        {
            "listener.timeouts.routes": ("status 400", "status 499", "status 500", "status 504"),
            "listener.timeouts.stuck_endpoint": f"{AT_TIMES}time",
            "listener.timeouts.whole": tuple(f"{AT_TIMES}{word}" for word in ("status", "time", "open", "closed")),
        },
    ),
    "paths.strict": habit(
        "dot segments and repeated slashes are resolved, escapes of letters and digits decoded and raw bytes such as "
        "`|` escaped, before rules look at a path, and endpoints get that form; escapes of slashes, backslashes and "
        "control characters, and broken ones, get 400",
    ),
    "paths.allow": emulated("Traefik's own normalisation of paths"),
    "paths.normalize": habit(
        "a path that ends with a dot segment loses its last slash, and one that leads above the root begins there",
        {"paths.normalize.last": "target"},
    ),
    "paths.verbatim": refused(
        "Traefik decodes and adds escapes before rules look at a path; nginx, HAProxy and Envoy can"
    ),
    "framing": habit(
        "Transfer-Encoding wins over Content-Length, bare line feeds and folded fields are accepted, and endpoints get "
        "one well-formed request; CONNECT, TRACE, and hosts that are no name and no address get a 4xx; without TLS, "
        "clients may begin with HTTP/2 whatever http2 says",
    ),
    "framing.malformed": habit(
        "Go's server answers by itself: 400, 431, 501 for codings that it does not know and 505 for other versions of "
        "HTTP, without a line in the access log",
    ),
    "headers.hop_by_hop": habit(
        "the values of a request's trailers and Proxy-Authorization do not reach endpoints, and an endpoint that gets "
        "`Pragma: no-cache` gets `Cache-Control: no-cache` as well",
        {
            "headers.hop_by_hop.everywhere": (
                "header te: trailers",
                "header proxy-authorization",
                "header cache-control: no-cache",
            )
        },
    ),
    "headers.connection_nominated": habit(
        "fields that a request's Connection names are dropped, but for X-Forwarded-*; those that a response's "
        "Connection names beside `close` reach the client",
    ),
    "headers_with_underscores.drop": habit(
        "header fields with a dot in their names are dropped too",
        {"headers_with_underscores.drop.others": "header x.dot"},
    ),
    "forwarded_headers": habit(
        "X-Forwarded-Port is the port of the Host header, X-Forwarded-Proto of an upgraded connection is ws or wss",
        {
            "forwarded_headers.everywhere": (
                "header x-forwarded-port",
                "header x-forwarded-proto: ws",
                "header x-forwarded-proto: wss",
            )
        },
    ),
    "forwarded_headers.real_ip": emulated(
        "Traefik sends it to every endpoint; behind proxies the lbgen plugin sets it"
    ),
    "forwarded_headers.forwarded": emulated("the lbgen plugin writes it"),
    "listener.client_ip": emulated("the lbgen plugin reads it"),
    "request_id": emulated("the lbgen plugin makes the id"),
    "route.request_headers.add": approximate(
        "an added line replaces those of the client; nginx, HAProxy and Envoy can add",
        {"route.request_headers.add.routes": "header x-*"},
        where_static_lines_remain,
    ),
    "route.response_headers.add": approximate(
        "an added line replaces those of the endpoint; nginx, HAProxy and Envoy can add",
        {"route.response_headers.add.routes": "header"},
        where_static_lines_remain,
    ),
    "route.forward": habit(
        "an endpoint gets X-Real-Ip and X-Forwarded-Server, a client's own X-Request-Id where request_id alone is off, "
        "escapes in upper case, `&` for `;` in a query, and "
        "`Accept-Encoding: gzip` from clients that send none, whose answer is unpacked on the way; a GET is sent again "
        "where a kept connection ends before its answer, and any request whose stream an endpoint of HTTP/2 refuses, "
        "with growing pauses and whatever timeouts.response says; an answer that is cut early may be cut before its "
        "head; an answer waits for the end of its request's body, and now and then one breaks off whose endpoint "
        "begins it the moment it has that body (Go issue 40747)",
        {
            "route.forward.everywhere": (
                "header accept-encoding: gzip",
                "header x-forwarded-server",
                "header x-request-id",
                "spelling",
            ),
            "route.forward.one_attempt": "tries",
            "route.forward.cut": f"{AT_TIMES}closed",
            "route.forward.early": "other",
            "route.forward.upload": f"{AT_TIMES}other",
        },
    ),
    "route.redirect": habit(
        "the lbgen plugin answers, as Traefik's redirects choose the status by the method; escapes are in upper case",
        {"route.redirect.escapes": "header location"},
    ),
    "route.respond": emulated("the lbgen plugin answers; Traefik has no fixed responses"),
    "route.mirror": habit(
        "a mirroring service, which keeps the body in memory; handshakes of WebSocket are mirrored too",
        {"route.mirror.tunnels": "copies"},
    ),
    "route.cors": habit(
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
    "route.compression": habit(
        "every status but 204 and 304 is compressed, `no-transform` too; only the first line of Accept-Encoding "
        "counts, and a strong ETag stays strong",
        {
            "route.compression.lines": ("header content-encoding", "header vary"),
            "route.compression.routes": ("header content-encoding: gzip", "header vary", "header etag"),
        },
    ),
    "route.buffering": approximate(
        "requests and responses are both read whole before they are sent on; nginx, HAProxy and Envoy can do one alone",
        {"route.buffering.routes": ("open", "closed", "time", "other")},
        where_one_way_is_buffered,
    ),
    "statuses": habit("the texts are Go's and Traefik's own, such as `404 page not found`"),
    "statuses.failures": habit(
        "502 where a connection fails, 500 for a failure of TLS, 503 where no endpoint is up, 504 where a time is "
        "over; a response without a Content-Type gets a guessed one where an interim response came before it",
        {"statuses.failures.tls": "status 500"},
    ),
    "route.rate_limit": habit(
        "a request over the burst waits for up to half of the time until the next is allowed, and a refused one gets "
        "Retry-After; a change of the configuration forgets what was counted",
        {"route.rate_limit.routes": "rate"},
    ),
    "route.max_body": emulated(
        "the lbgen plugin looks at Content-Length, and cuts bodies without one; Traefik's own limit reads requests and "
        "responses whole"
    ),
    "listener.error_pages": emulated("the lbgen plugin looks at the status of each answer"),
    "route.error_pages": habit(
        "the lbgen plugin looks at the status of each answer, whose body it sends on piece by piece; a handshake of "
        "WebSocket that fails has Traefik's own text",
        {"route.error_pages.failed_handshake": "text"},
    ),
    "route.access": emulated("access lists on its routers, and routers for the clients that are denied"),
    "timeouts.idle": habit(
        "Traefik has no idle time: a silent body or tunnel stays open, and counts for least_connections",
        {
            "timeouts.idle.body": f"{AT_TIMES}time",
            "timeouts.idle.upload": f"{AT_TIMES}time",
            "timeouts.idle.tunnel": f"{AT_TIMES}time",
        },
    ),
    "timeouts.request": habit(
        "the lbgen plugin ends the request, but Traefik answers a client that pauses in its body only when that "
        "goes on or its own time is over",
        {
            "timeouts.request.stalled_upload": "open",
            "timeouts.request.stalled_upload_http2": ("open", "time"),
            "timeouts.request.slow_upload": "open",
            "timeouts.request.client_body_first": ("open", "time"),
        },
    ),
    "route.retries": habit(
        "a retry may meet the same endpoint; a cause of `reset` or `timeout` makes 502 and 504 of endpoints be retried "
        "too, and both are retried for each other; an answer that is no HTTP gives 500 at once; a POST with an "
        "Idempotency-Key counts as idempotent",
        {
            "route.retries.routes": ("status 200", "status 500", "status 502", "status 504", "tries", "endpoint"),
            "route.retries.alike": tuple(f"{AT_TIMES}{word}" for word in ("time", "tries")),
            "route.retries.untried": f"{AT_TIMES}tries",
            "route.retries.keyed": "tries",
        },
    ),
    "route.retries.budget": refused("Traefik's retries have no budget; Envoy can"),
    "pool.balance.least_connections.weights": refused(
        "Traefik's least connections have no weights; nginx, HAProxy and Envoy can"
    ),
    "pool.balance.random": habit(
        "the less busy of two random endpoints is chosen", {"pool.balance.random.routes": "endpoint"}
    ),
    "pool.balance.hash": emulated(
        "the lbgen plugin gives the key to Traefik's strategy hrw; a retry goes to the same endpoint"
    ),
    "pool.backup": emulated("a failover service; on L4 routes `lbgen agent` changes the weights"),
    "pool.endpoint_names": emulated("a name is resolved for each new connection, by the system's resolver"),
    "pool.health.active": emulated("Traefik's own checks, on L4 routes those of `lbgen agent`"),
    "pool.health.passive": habit(
        "failures count within eject_for, whether or not good answers lie between them",
        {"pool.health.passive.routes": "endpoint"},
    ),
    "pool.connections.max_per_endpoint": refused(
        "Traefik does not limit requests to an endpoint; nginx, HAProxy and Envoy can"
    ),
    "pool.connections.queue": refused("Traefik has no queue; HAProxy can"),
    "pool.slow_start": refused("Traefik has no slow start; HAProxy and Envoy can"),
    "pool.sticky": habit(
        "the cookie's value is Traefik's own, so that other engines do not know it, and of a split it holds once the "
        "target is chosen",
        {
            "pool.sticky.routes": ("pool", "endpoint", "header"),
            "pool.sticky.cookie": (f"{AT_TIMES}pool", f"{AT_TIMES}endpoint", f"{AT_TIMES}header set-cookie"),
        },
    ),
    "pool.proxy_protocol": refused("Traefik sends PROXY headers on L4 routes only; HAProxy and Envoy can"),
    "metrics": emulated(
        "`lbgen agent` counts the lines of Traefik's log and writes the access log; as there, a try that Traefik's "
        "connections repeat is not counted, a client that left is counted as 4xx, and what Go's server answers by "
        "itself is not counted"
    ),
    "metrics.l4": refused("Traefik logs no connections of L4 listeners, and counts no bytes of them"),
    "values": emulated("the lbgen plugin writes values that are made of facts of a request"),
    "values.endpoint": refused("Traefik does not tell its middlewares which endpoint served a request"),
    "listener.tls.curves": emulated("all of the list; Go orders them by itself"),
    "access_log.l4": approximate("Traefik logs no connections of L4 listeners", {"access_log.l4": "log"}),
    "access_log": habit(
        "the lines have Traefik's own fields, which lbgen logs reads, and the query is in them; a try that Traefik's "
        "connections repeat is not counted, the host has no port, a client that left has 499, and what Go's server "
        "answers by itself has no line",
        {
            "access_log.routes": "log",
            "access_log.cut": "log",
        },
    ),
    # Of what is named above, what the engine has without more.
    "pool.proxy_protocol.l4": NATIVE,
    "route.forward.split": NATIVE,
    "route.forward.request_headers": NATIVE,
    "engines.verbatim": UNPORTABLE,
    "engines.forwarding.direct": refused("it forwards bytes itself, so replies come back through it"),
}

_HOP_BY_HOP = _SUPPORT["headers.hop_by_hop"]
_NO_H2C_TIMES = refused("Traefik has times for HTTP/2 to endpoints from 3.7 on")
_SERVICE_MIDDLEWARES = refused("Traefik's services have middlewares of their own from 3.7 on")
_SUPPORT_3_6: dict[Feature, Verdict] = _SUPPORT | {
    "headers.hop_by_hop": habit(
        f"{_HOP_BY_HOP.note}, and `Upgrade: h2c` reaches endpoints",
        {part: (*shown, "header upgrade") for part, shown in _HOP_BY_HOP.differs},
    ),
    "headers_with_underscores.drop": emulated("the lbgen plugin drops them, as Traefik does so from 3.7 on"),
    "route.retries": refused("Traefik's retries know causes from 3.7 on"),
    "route.forward.request_headers": _SERVICE_MIDDLEWARES,
    "pool.balance.hash": _SERVICE_MIDDLEWARES,
    "pool.protocol.http2": _NO_H2C_TIMES,
    "pool.protocol.grpc": _NO_H2C_TIMES,
}

SUPPORT = {"3.7": VerdictTable(_SUPPORT), "3.6": VerdictTable(_SUPPORT_3_6)}
