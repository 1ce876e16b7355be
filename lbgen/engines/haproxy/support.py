"""HAProxy's verdict on every feature of the contract."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.api import AT_TIMES, NATIVE, UNPORTABLE, Verdict, approximate, emulated, refused
from lbgen.engines.difference_shows import (
    where_answers_are_kept,
    where_bodies_are_forwarded,
    where_statuses_are_retried,
)
from lbgen.plan.features import Feature
from lbgen.plan.guarantees import Guarantee

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSIONS = ("2.8", "3.2", "3.0", "2.6")

_NATIVE = (
    Feature.L7,
    Feature.L4_TCP,
    Feature.DUAL_STACK,
    Feature.TLS_CLIENT_CERT,
    Feature.TLS_PASSTHROUGH,
    Feature.HTTP2,
    Feature.PROXY_PROTOCOL_IN,
    Feature.MAX_CONNECTIONS,
    Feature.L4_MAX_CONNECTIONS,
    Feature.L4_SNI,
    Feature.L4_SOURCES,
    Feature.HOST_EXACT,
    Feature.PATH_EXACT,
    Feature.METHOD,
    Feature.HEADER,
    Feature.HEADER_PRESENT,
    Feature.PRIORITY,
    Feature.FRAMING,
    Feature.FORWARD,
    Feature.STATUSES,
    Feature.UNDERSCORES_DROP,
    Feature.UNDERSCORES_PASS,
    Feature.REQUEST_ID,
    Feature.REQUEST_HEADERS_SET,
    Feature.REQUEST_HEADERS_ADD,
    Feature.REQUEST_HEADERS_REMOVE,
    Feature.RESPONSE_HEADERS_SET,
    Feature.RESPONSE_HEADERS_ADD,
    Feature.RESPONSE_HEADERS_REMOVE,
    Feature.SPLIT_HEADERS,
    Feature.RESPOND,
    Feature.REWRITE_PATH,
    Feature.REWRITE_HOST,
    Feature.WEBSOCKET,
    Feature.TIMEOUT_CONNECT,
    Feature.CLIENT_TIMEOUTS,
    Feature.ROUND_ROBIN,
    Feature.LEAST_CONNECTIONS,
    Feature.LEAST_CONNECTIONS_WEIGHTED,
    Feature.SOURCE_HASH,
    Feature.SOURCE_HASH_WEIGHTED,
    Feature.RANDOM,
    Feature.HASH,
    Feature.BACKUP,
    Feature.WEIGHTS,
    Feature.RETRIES,
    Feature.SLOW_START,
    Feature.STICKY,
    Feature.MAX_PER_ENDPOINT,
    Feature.QUEUE,
    Feature.TLS_TERMINATE,
    Feature.POOL_TLS,
    Feature.POOL_HTTP2,
    Feature.POOL_GRPC,
    Feature.PROXY_PROTOCOL_OUT,
    Feature.L4_PROXY_PROTOCOL_OUT,
    Feature.DRAIN,
    Feature.ENDPOINT_IPV6,
)

_EMULATED = {
    Feature.METRICS_L4: "`lbgen agent` counts the lines of a log of connections",
    Feature.METRICS: "`lbgen agent` counts the lines of a second log",
    Feature.ENDPOINT_NAMES: "HAProxy's resolvers; of several addresses of a name HAProxy uses one, as long as "
    "the name has it",
    Feature.TRUSTED_PROXIES: "an ACL on the peer's address guards each statement that sets a forwarded header",
    Feature.HOST_WILDCARD: "a map lookup of the host's last labels, most labels first",
    Feature.PATH_PREFIX: "a prefix map lookup of the path with a slash behind it",
    Feature.PATH_REGEX: "PCRE, which matches the accepted subset as RE2 does; where a group repeats over a "
    "thousand times in one path it stops, and the rule does not match",
    Feature.HEADER_REGEX: "ACLs on each element of the list and on the whole list",
    Feature.QUERY: "a Lua function finds and decodes the first parameter of that name",
    Feature.QUERY_REGEX: "a Lua function finds and decodes the first parameter of that name",
    Feature.QUERY_PRESENT: "a Lua function finds and decodes the first parameter of that name",
    Feature.COOKIE: "a Lua function finds the first cookie of that name",
    Feature.COOKIE_REGEX: "a Lua function finds the first cookie of that name",
    Feature.COOKIE_PRESENT: "a Lua function finds the first cookie of that name",
    Feature.PATHS_STRICT: "deny rules on the raw target before anything else",
    Feature.PATHS_ALLOW: "the same deny rules without what the listener allows",
    Feature.PATHS_NORMALIZE: "a Lua function, called for targets that have something to normalize",
    Feature.PATHS_VERBATIM: "deny rules on the characters of the target; Lua refuses paths that lead above the root",
    Feature.HOP_BY_HOP: "each of these headers is deleted by name",
    Feature.LISTENER_ACCESS: "deny rules on the client's address; behind trusted proxies a Lua function finds it",
    Feature.ROUTE_ACCESS: "deny rules on the client's address; behind trusted proxies a Lua function finds it",
    Feature.LISTENER_LIMITS: "deny rules on the length of the target and of all header lines",
    Feature.RATE_LIMIT: "token buckets in Lua, shared by all threads",
    Feature.CONCURRENCY: "a stick table counts each request from its route to its last byte",
    Feature.MAX_BODY: "a deny rule on Content-Length; a Lua filter counts a body that has none",
    Feature.HEALTH_ACTIVE: "HAProxy's own checks, for which an interim response (100, 103) is the response",
    Feature.HEALTH_PASSIVE: "Lua counts failures and sets an endpoint to maintenance for that time",
    Feature.CORS: "a Lua function compares origin, method and headers; statements set the response headers",
    Feature.COMPRESSION: "a Lua action marks the responses that HAProxy's filter compresses; one after an interim "
    "response is not compressed",
    Feature.MIRROR: "a Lua filter copies the request and sends it to an internal frontend; one with a "
    "body above 64 KiB is not copied",
    Feature.BUFFERING: "every buffer of HAProxy is sized for what one route buffers: 1 MiB of a request, 256 KiB "
    "of a response",
    Feature.TIMEOUT_RESPONSE: "a timer of HAProxy; a Lua filter where bodies may be silent for longer",
    Feature.TIMEOUT_IDLE: "a timer of HAProxy; a Lua filter where the response head may take longer",
    Feature.TIMEOUT_REQUEST: "a Lua filter with a timer, which does not run while a client with Expect sends nothing "
    "of its body; the connect time is capped by it",
    Feature.CONNECTION_NOMINATED: "a Lua function deletes them from requests whose Connection names any",
    Feature.FORWARDED_HEADERS: "one statement per header; a regex joins several X-Forwarded-For lines",
    Feature.SPLIT: "a map lookup of a random number; shares are exact to one in a million",
    Feature.REDIRECT: "a response whose Location is built from the request",
    Feature.REWRITE_PREFIX: "the path's segments behind the prefix are stored and appended to the new one",
    Feature.KEEPALIVE_IDLE: "in steps of a tenth of that time HAProxy closes half of the connections that the load of "
    "the last steps did not need; one alone goes in the third step",
    Feature.KEEPALIVE: "counted per endpoint over all threads; unset, HAProxy keeps as many as it used last",
}

_APPROXIMATE = {
    Feature.TLS_NO_SNI: "a client without a server name is refused in the handshake: HAProxy can refuse those only "
    "together with names that no certificate has",
    Feature.ACCESS_LOG: "for a compressed response the bytes before compression are logged; for one of known length "
    "that was cut its head is among the bytes",
    Feature.FAILURES: "when the connect time expires for a later request of a kept client connection, or its endpoint "
    "closes and a route with retries does not try again, HAProxy closes that connection (HTTP/2: resets the stream) "
    "instead of answering 504 or 502; so it does beside filters where the endpoint closes and the body of that later "
    "request came after its head",
    Feature.MALFORMED: "some malformed requests are not refused but forwarded in one unambiguous form: "
    "Content-Length beside Transfer-Encoding is dropped, equal lengths or Host lines become one, bare LF, folded "
    "lines and extra blanks or tabs in the request line are normalized; an unknown coding before chunked is "
    "answered 422, and what HAProxy's parser refuses, a head above 15 KiB included, gets its built-in 400 page; "
    "over HTTP/2 a Host beside :authority is ignored, GET * is GET /, and the scheme's own port behind a host is "
    "dropped before the rest is validated; a PROXY header whose numbers are too large, or whose address is too "
    "short, is accepted; HTTP/1.0 stays HTTP/1.0 on the way to the endpoint, whose chunks or 103 reach the client as "
    "they are; a response that its endpoint resets, where it has neither a length nor chunks, looks complete, as does "
    "one over HTTP/2 that is shorter than its Content-Length: the client's HTTP/1 connection then stays open; "
    "what an endpoint sends later of a response that arrived in one packet with a 103, or with the 100 of a request "
    "over HTTP/2 or without a body, is lost (HAProxy issue 3209): in chunks it looks complete, with a length it waits",
}

# What conformance cases observe instead.
_DIFFERS: dict[Feature, dict[str, str | tuple[str, ...]]] = {
    Feature.TLS_NO_SNI: {
        "listener.tls.no_sni.first": "text: no answer",
        "listener.tls.no_sni.other": "text: no answer",
    },
    Feature.FAILURES: {"statuses.failures.kept_connect": "closed", "statuses.failures.kept_no_retry": "closed"},
    Feature.ACCESS_LOG: {"access_log.cut": "text: bytes "},
    Feature.MALFORMED: {
        "framing.malformed.length_with_coding": "accepted",
        "framing.malformed.http10": "text: version",
        "framing.malformed.http10_chunks": "header transfer-encoding: chunked",
        "framing.malformed.reset_until_close": "text: the body is complete",
        "framing.malformed.short_response": "time",
        "framing.malformed.interim": ("cut", "text: body b"),
        "framing.malformed.equal_hosts": "accepted",
        "framing.malformed.bare_lf": "accepted",
        "framing.malformed.folded": "accepted",
        "framing.malformed.coding_before_chunked": "status 422",
        "framing.malformed.two_hosts": "text",
        "framing.malformed.absolute_host": "text",
        "framing.malformed.absolute_port": "text",
        "framing.malformed.host_characters": "text",
        "framing.malformed.host_comma": "text",
        "framing.malformed.h2_asterisk": "status 404",
        "framing.malformed.h2_port": "accepted",
        "framing.malformed.request_line": "accepted",
        "framing.malformed.oversized": "status 400",
        "framing.malformed.proxy_numbers": "status 200",
        "framing.malformed.proxy_l4": "status 200",
        "framing.malformed.h2_frames": ("text: two hosts", "text: 1 of these requests"),
    },
}

_REFUSED = {
    Feature.L4_UDP: "HAProxy does not proxy UDP",
    Feature.RETRY_BUDGET: "HAProxy does not count its retries against its requests",
    Feature.DIRECT: "it forwards bytes itself, so replies come back through it",
}


# What HAProxy does where a clause is left to it.
HABITS = {
    Guarantee.PATHS: "a path with dot segments, empty segments, or escapes that are broken or of slashes, backslashes, "
    "control or unreserved characters gets 400, as do a raw byte outside US-ASCII and a fragment; the absolute form is "
    "forwarded as it came",
    Guarantee.FRAMING: "Content-Length beside Transfer-Encoding is dropped, one of 2^64 counts as 0, equal lengths or "
    "Host lines become one, bare LF, folded lines and extra blanks in the request line are normalized, a missing Host "
    "passes; differing lengths and what else its parser refuses get 400; TRACE and CONNECT pass",
    Guarantee.CONNECTION_OPTIONS: "a request whose Connection names header fields gets 400; those that a response's "
    "Connection names pass",
    Guarantee.ANSWERS: "HAProxy's built-in HTML pages; 503 where a connection fails or no endpoint is up, 502 where an "
    "endpoint's answer is broken or missing, 504 where a response is late, 400 for a large head; a failure on a kept "
    "client connection, or where the client or the endpoint speaks HTTP/2, may close it (HTTP/2: reset the stream) "
    "without an answer",
}

# HAProxy 2.6 does not refuse these itself; deny rules do.
_NEW_PARSER = ("framing.malformed.host_characters", "framing.malformed.host_comma", "framing.malformed.h2_asterisk")
_SHORT_BODY = "; over HTTP/2 a body that is shorter than its length reaches the endpoint before HAProxy detects it"


# `retry-on` makes HAProxy 3.0 answer the first request of a connection only; beside filters a Lua answer never ends.
_CLOSED_BESIDE_FILTERS = (
    "; beside `max_body`, `mirror`, `compression`, `timeouts.request` or a `timeouts.response` below `timeouts.idle`, "
    "the client's connection is closed without a 502 where an endpoint closes without a response for a later request "
    "of a kept client connection, and maybe where either connection is HTTP/2"
)
_CLOSED_BESIDE_FILTERS_SHOWS = {
    "statuses.failures.kept_close": "closed",
    "statuses.failures.h2_close": f"{AT_TIMES}closed",
    "statuses.failures.h2_endpoint_close": f"{AT_TIMES}closed",
}
_LAST_TRY = (
    "where an endpoint closes the last try without a response, the client may get no 502 but a closed connection"
)
# HAProxy 3.2 answers large heads with 414 and 431, and its patch releases fix two faults.
_SINCE_3_2 = (
    (
        "what HAProxy's parser refuses, a head above 15 KiB included, gets its built-in 400 page",
        "what HAProxy's parser refuses gets its built-in page: 400, or 414 and 431 for a head above 15 KiB",
    ),
    ("shorter than its Content-Length:", "shorter than its Content-Length, before 3.2.23:"),
    ("(HAProxy issue 3209)", "before 3.2.10 (HAProxy issue 3209)"),
)
_SINCE_3_2_SHOWS: dict[str, str | tuple[str, ...]] = {
    "framing.malformed.oversized": "text",
    "framing.malformed.short_response": f"{AT_TIMES}time",
    "framing.malformed.interim": (f"{AT_TIMES}cut", f"{AT_TIMES}text: body b"),
}

# HAProxy 3.2 evaluates a server's `sni`, which stores the time of a try, at the first try only.
_FIRST_TRY = "where a try takes the whole connect time and the next one is refused, the answer is 504 instead of 502"

# HAProxy 2.6 cannot answer in these cases.
_CLOSED = (
    "when the connect time expires, or the endpoint closes without a response, for a later request of a kept client "
    "connection, HAProxy closes that connection (HTTP/2: resets the stream) instead of answering 504 or 502"
)
_CLOSED_WHERE = (
    "statuses.failures.kept_connect",
    "statuses.failures.kept_close",
    "statuses.failures.kept_no_retry",
    "statuses.failures.h2_close",
)


@cache
def support(version: str) -> Mapping[Feature, Verdict]:
    """The verdict on every feature."""
    known: dict[Feature, Verdict] = (
        dict.fromkeys(_NATIVE, NATIVE)
        | {feature: emulated(how) for feature, how in _EMULATED.items()}
        | {feature: approximate(what, _DIFFERS.get(feature)) for feature, what in _APPROXIMATE.items()}
        | {feature: refused(why) for feature, why in _REFUSED.items()}
        | {Feature.ESCAPE_HATCH: UNPORTABLE}
    )
    if version == "2.6":
        stops = {"listener.timeouts.body": ("status 504", "time", "text: the connection took")}
        known[Feature.CLIENT_TIMEOUTS] = approximate(
            "a body that stops ends with the response time", stops, where_bodies_are_forwarded
        )
        known[Feature.FAILURES] = approximate(_CLOSED, dict.fromkeys(_CLOSED_WHERE, "closed"))
        framing = {part: shown for part, shown in _DIFFERS[Feature.MALFORMED].items() if part not in _NEW_PARSER}
        framing["framing.malformed.h2_frames"] = ("text: a length that", "text: two hosts", "text: 2 of these requests")
        known[Feature.MALFORMED] = approximate(_APPROXIMATE[Feature.MALFORMED] + _SHORT_BODY, framing)
    if version == "3.0":
        failures = _APPROXIMATE[Feature.FAILURES] + _CLOSED_BESIDE_FILTERS
        known[Feature.FAILURES] = approximate(failures, _DIFFERS[Feature.FAILURES] | _CLOSED_BESIDE_FILTERS_SHOWS)
        known[Feature.RETRIES] = approximate(_LAST_TRY, {"route.retries.routes": "closed"}, where_statuses_are_retried)
    if version == "3.2":
        malformed = _APPROXIMATE[Feature.MALFORMED]
        for elsewhere, here in _SINCE_3_2:
            malformed = malformed.replace(elsewhere, here)
        known[Feature.MALFORMED] = approximate(malformed, _DIFFERS[Feature.MALFORMED] | _SINCE_3_2_SHOWS)
        known[Feature.RETRIES] = approximate(
            _FIRST_TRY, {"route.retries.refused_last": "status 504"}, where_answers_are_kept
        )
    return {feature: known[feature] for feature in Feature}
