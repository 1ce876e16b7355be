"""Verdicts of HAProxy on every feature; those that it has without more are not listed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.api import AT_TIMES, NATIVE, UNPORTABLE, Verdict, emulated, habit, refused
from lbgen.engines.conditions import condition_verdicts
from lbgen.engines.difference_shows import where_bodies_are_forwarded
from lbgen.engines.haproxy.conditions import CONDITIONS
from lbgen.plan.features import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSIONS = ("2.8", "3.2", "3.0", "2.6")

_EMULATED = {
    Feature.METRICS_L4: "`lbgen agent` counts the lines of a log of connections",
    Feature.METRICS: "`lbgen agent` counts the lines of a second log",
    Feature.ENDPOINT_NAMES: "HAProxy's resolvers; of several addresses of a name HAProxy uses one, as long as "
    "the name has it",
    Feature.TRUSTED_PROXIES: "an ACL on the peer's address guards the statement that removes what strangers say",
    Feature.HOST_WILDCARD: "a map lookup of the host's last labels, most labels first",
    Feature.PATHS_STRICT: "a deny rule on the path before anything else",
    Feature.PATHS_ALLOW: "the same deny rule without what the listener allows",
    Feature.PATHS_NORMALIZE: "a Lua function, called for targets that have something to normalize",
    Feature.PATHS_VERBATIM: "deny rules on the characters of the path; Lua refuses paths that lead above the root",
    Feature.HOP_BY_HOP: "these headers are deleted by name",
    Feature.LISTENER_ACCESS: "deny rules on the client's address; behind trusted proxies a Lua function finds it",
    Feature.ROUTE_ACCESS: "deny rules on the client's address; behind trusted proxies a Lua function finds it",
    Feature.LISTENER_LIMITS: "rules on the length of the target and of all header lines",
    Feature.RATE_LIMIT: "a stick table keeps for each key the time at which its bucket is full again",
    Feature.CONCURRENCY: "a stick table counts each request from its route to its last byte",
    Feature.HEALTH_ACTIVE: "HAProxy's own checks, for which an interim response (100, 103) is the response",
    Feature.CORS: "statements that answer preflight requests and set the headers of responses",
    Feature.BUFFERING: "every buffer of HAProxy is sized for what one route buffers: 1 MiB of a request, 256 KiB "
    "of a response",
    Feature.FORWARDED_HEADERS: "one statement per header",
    Feature.SPLIT: "a map lookup of a random number; shares are exact to one in a million",
    Feature.REDIRECT: "a response whose Location is built from the request",
    Feature.REWRITE_PREFIX: "the path's segments behind the prefix are stored and appended to the new one",
    Feature.KEEPALIVE_IDLE: "in steps of a tenth of that time HAProxy closes half of the connections that the load of "
    "the last steps did not need; one alone goes in the third step",
    Feature.KEEPALIVE: "counted per endpoint over all threads; unset, HAProxy keeps as many as it used last",
}

_HABITS = {
    Feature.CLIENT_TIMEOUTS: "client_body holds too for a client that pauses as it reads, and for a head where it is "
    "the shorter time",
    Feature.MAX_BODY: "a body without a length that grows over the limit is cut, and answered 400 instead of 413",
    Feature.TLS_NO_SNI: "a client with a server name that no certificate has gets the first one, and its connection is "
    "closed after the handshake",
    Feature.ACCESS_LOG: "the bytes of a response without a length, and of one that was cut or compressed, are counted "
    "with its head and before compression",
    Feature.STATUSES: "refusals have HAProxy's built-in pages; a request that its parser refuses gets 400",
    Feature.FAILURES: "a connection that fails gives 503, as do endpoints that are all down; a broken response 502, "
    "a late one 504; an HTTP/2 endpoint has the connect time for its first frame, and one over TLS that speaks "
    "HTTP/1.1 alone is served by that; over HTTP/2, and for a later request of a kept connection, HAProxy may close "
    "it (HTTP/2: reset the stream) where the endpoint closed without an answer",
    Feature.MALFORMED: "Content-Length beside Transfer-Encoding is dropped, equal lengths or Host lines become one "
    "(lengths in responses too), bare LF, folded lines and extra blanks in the request line are normalized; the rest "
    "gets 400 and HAProxy's page; a request without Host gets 400; a PROXY header whose numbers are too large, or "
    "whose address is too short, is accepted; HTTP/1.0 stays HTTP/1.0 on the way to the endpoint; trailers of "
    "requests pass; a response that its endpoint cuts may look complete over HTTP/2, as may one that came in one "
    "packet with an interim response (HAProxy issue 3209, before 3.2.10)",
    Feature.CONNECTION_NOMINATED: "a request whose Connection names other fields is refused; in responses they pass",
    Feature.COMPRESSION: "HAProxy compresses responses with 200 to 203; before 3.1 it knows no least size, later a "
    "body without a length is as large as what has come of it with the head",
    Feature.MIRROR: "a Lua function of 25 lines sends the copies, with bodies of at most 8 KiB and of known length; a "
    "request with another body is copied only where its route buffers requests, and at most 500 in each thread wait "
    "for their answers; once a mirror answers, its connection is closed",
    Feature.HEALTH_PASSIVE: "HAProxy counts responses of 500 and more, but 501 and 505, and answers that never come; a "
    "connection brings an ejected endpoint back when its time is over, or keeps it out as long as it refuses",
    Feature.STICKY: "HAProxy takes its cookie from requests, and sends Cache-Control: private with a new one",
    Feature.RETRIES: "a try avoids only the endpoint of the one before; a pool of one endpoint is asked again after a "
    "second; a body is sent again as far as it is still in the buffer",
}

# What conformance cases observe instead.
_DIFFERS: dict[Feature, dict[str, str | tuple[str, ...]]] = {
    Feature.TLS_NO_SNI: {"listener.tls.no_sni.unknown": "tls handshake"},
    Feature.MIRROR: {"route.mirror.bodies": "copies"},
    Feature.MAX_BODY: {"route.max_body.routes": f"{AT_TIMES}status 400"},
    Feature.STICKY: {"pool.sticky.routes": f"{AT_TIMES}header cookie"},
    Feature.COMPRESSION: {"route.compression.routes": (f"{AT_TIMES}header content-encoding", f"{AT_TIMES}header vary")},
    Feature.RETRIES: {"route.retries.untried": "tries"},
    Feature.CLIENT_TIMEOUTS: {
        "listener.timeouts.head": f"{AT_TIMES}status 408",
        "listener.timeouts.reading": f"{AT_TIMES}time",
    },
    Feature.HEALTH_PASSIVE: {"pool.health.passive.tries_count": f"{AT_TIMES}endpoint"},
    Feature.FAILURES: {
        "statuses.failures.kept_close": "other",
        "statuses.failures.kept_connect": "other",
        "statuses.failures.kept_no_retry": ("tries", "closed"),
    },
    Feature.ACCESS_LOG: {"access_log.cut": "log"},
    Feature.MALFORMED: {
        "framing.malformed.http10": "saw version",
        "framing.malformed.http10_chunks": "header transfer-encoding: chunked",
        "framing.malformed.reset_until_close": "whole",
        "framing.malformed.short_response": f"{AT_TIMES}time",
    },
}

_REFUSED = {
    Feature.L4_UDP: "HAProxy does not proxy UDP",
    Feature.RETRY_BUDGET: "HAProxy does not count its retries against its requests",
    Feature.TIMEOUT_REQUEST: "HAProxy has no timer for a whole request",
    Feature.DIRECT: "it forwards bytes itself, so replies come back through it",
}


_SINCE_2_8: dict[str, str | tuple[str, ...]] = {
    "listener.timeouts.body": ("status 504", "time"),
    "listener.timeouts.kept": f"{AT_TIMES}time",
}
# What HAProxy does where a clause is left to it.
HABITS = {
    "paths": "a path that can be read in two ways is refused",
    "framing": _HABITS[Feature.MALFORMED],
    "connection_options": _HABITS[Feature.CONNECTION_NOMINATED],
    "answers": _HABITS[Feature.FAILURES],
}


@cache
def support(version: str) -> Mapping[Feature, Verdict]:
    """The verdict on every feature."""
    known: dict[Feature, Verdict] = (
        condition_verdicts(CONDITIONS)
        | {feature: emulated(how) for feature, how in _EMULATED.items()}
        | {feature: habit(what, _DIFFERS.get(feature)) for feature, what in _HABITS.items()}
        | {feature: refused(why) for feature, why in _REFUSED.items()}
        | {Feature.ESCAPE_HATCH: UNPORTABLE}
    )
    if version == "2.6":
        note = f"{_HABITS[Feature.CLIENT_TIMEOUTS]}; a body that stops ends with the response time"
        known[Feature.CLIENT_TIMEOUTS] = habit(
            note, _DIFFERS[Feature.CLIENT_TIMEOUTS] | _SINCE_2_8, where_bodies_are_forwarded
        )
    return {feature: known.get(feature, NATIVE) for feature in Feature}
