"""Verdicts of HAProxy on every feature; those that it has without more are not listed."""

from __future__ import annotations

from functools import cache

from lbgen.engines.api import AT_TIMES, NATIVE, UNPORTABLE, VerdictTable, emulated, habit, refused
from lbgen.engines.conditions import condition_verdicts
from lbgen.engines.difference_shows import where_bodies_are_forwarded
from lbgen.engines.haproxy.conditions import CONDITIONS
from lbgen.plan.features import Feature

VERSIONS = ("2.8", "3.2", "3.0", "2.6")

_EMULATED = {
    "route.max_body": "a deny rule on Content-Length; a Lua filter ends a body without one, and its 400 becomes 413",
    "metrics.l4": "`lbgen agent` counts the lines of a log of connections",
    "metrics": "`lbgen agent` counts the lines of a second log",
    "pool.endpoint_names": "HAProxy's resolvers; of several addresses of a name HAProxy uses one, as long as "
    "the name has it",
    "listener.trusted_proxies": "an ACL on the peer's address guards the statement that removes what strangers say",
    "match.host.wildcard": "a map lookup of the host's last labels, most labels first",
    "paths.strict": "a deny rule on the path before anything else",
    "paths.allow": "the same deny rule without what the listener allows",
    "paths.normalize": "a Lua function, called for targets that have something to normalize",
    "paths.verbatim": "deny rules on the characters of the path; Lua refuses paths that lead above the root",
    "headers.hop_by_hop": "these headers are deleted by name",
    "listener.access": "deny rules on the client's address; behind trusted proxies a Lua function finds it",
    "route.access": "deny rules on the client's address; behind trusted proxies a Lua function finds it",
    "listener.limits": "rules on the length of the target and of all header lines",
    "route.auth.jwt": "HAProxy's converters of tokens; of a list of audiences the first four count",
    "route.auth.basic": "a user list, whose hashes the system's crypt checks, and a map for those of SHA-1",
    "values": "samples in log-format texts, and variables for what edits change; a request whose values do not fit "
    "beside its head gets 500",
    "listener.error_pages": "`http-error` for each status that HAProxy answers by itself",
    "route.error_pages": "`http-error` in the backend, pages in the rules that deny, and `http-response return` for "
    "endpoints' answers",
    "route.rate_limit": "a stick table keeps for each key the time at which its bucket is full again",
    "route.concurrency": "a stick table counts each request from its route to its last byte",
    "pool.health.active": "HAProxy's own checks, for which an interim response (100, 103) is the response",
    "route.cors": "statements that answer preflight requests and set the headers of responses",
    "route.buffering": "every buffer of HAProxy is sized for what one route buffers: 1 MiB of a request, 256 KiB "
    "of a response",
    "forwarded_headers": "one statement per header",
    "route.forward.split": "a map lookup of a random number; shares are exact to one in a million",
    "route.redirect": "a response whose Location is built from the request",
    "route.rewrite.prefix": "the path's segments behind the prefix are stored and appended to the new one",
    "pool.connections.keepalive_idle": "in steps of a tenth of that time HAProxy closes half of the connections that "
    "the load of the last steps did not need; one alone goes in the third step",
    "pool.connections.keepalive": "counted per endpoint over all threads; unset, HAProxy keeps as many as it used last",
}

_HABITS = {
    "listener.timeouts": "client_body holds too for a client that pauses as it reads, and for a head where it is "
    "the shorter time",
    "listener.tls.no_sni": "a client with a server name that no certificate has gets the first one, and its connection "
    "is closed after the handshake",
    "access_log": "the bytes of a response without a length, and of one that was cut or compressed, are counted "
    "with its head and before compression",
    "values.cookie": "the value of a cookie ends at a comma",
    "statuses": "refusals have HAProxy's built-in pages; a request that its parser refuses gets 400",
    "statuses.failures": "a connection that fails gives 503, as do endpoints that are all down; a broken response 502, "
    "a late one 504; an HTTP/2 endpoint has the connect time for its first frame, and one over TLS that speaks "
    "HTTP/1.1 alone is served by that; over HTTP/2, and for a later request of a kept connection, HAProxy may close "
    "it (HTTP/2: reset the stream) where the endpoint closed without an answer",
    "framing.malformed": "Content-Length beside Transfer-Encoding is dropped, equal lengths or Host lines become one "
    "(lengths in responses too), bare LF, folded lines and extra blanks in the request line are normalized; the rest "
    "gets 400 and HAProxy's page; a request without Host gets 400; a PROXY header whose numbers are too large, or "
    "whose address is too short, is accepted; HTTP/1.0 stays HTTP/1.0 on the way to the endpoint; trailers of "
    "requests pass; a response that its endpoint cuts may look complete over HTTP/2, as may one that came in one "
    "packet with an interim response (HAProxy issue 3209, before 3.2.10)",
    "headers.connection_nominated": "a request whose Connection names other fields is refused; in responses they pass",
    "route.compression": "HAProxy compresses responses with 200 to 203; before 3.1 it knows no least size, later a "
    "body without a length is as large as what has come of it with the head",
    "route.mirror": "a Lua function of 25 lines sends the copies, with bodies of at most 8 KiB and of known length; a "
    "request with another body is copied only where its route buffers requests, and at most 500 in each thread wait "
    "for their answers; once a mirror answers, its connection is closed",
    "pool.health.passive": "HAProxy counts responses of 500 and more, but 501 and 505, and answers that never come; a "
    "connection brings an ejected endpoint back when its time is over, or keeps it out as long as it refuses",
    "route.auth.forward": "a Lua function of 40 lines asks the service, which sees HAProxy's User-Agent and Accept; "
    "its whole answer is awaited, and the body of a refusal left out where it is longer than 8 KiB; where the service "
    "gives another status or none, the client gets 503",
    "pool.sticky": "HAProxy takes its cookie from requests, and sends Cache-Control: private with a new one",
    "route.retries": "a try avoids only the endpoint of the one before; a pool of one endpoint is asked again after a "
    "second; a body is sent again as far as it is still in the buffer",
}

# What conformance cases observe instead.
_DIFFERS: dict[Feature, dict[str, str | tuple[str, ...]]] = {
    "listener.tls.no_sni": {"listener.tls.no_sni.unknown": "tls handshake"},
    "route.mirror": {"route.mirror.bodies": "copies", "route.mirror.kept": "time"},
    "values.cookie": {"values.cookie.comma": "header"},
    "route.auth.forward": {"route.auth.forward.several": f"{AT_TIMES}header"},
    "pool.sticky": {"pool.sticky.routes": f"{AT_TIMES}header cookie"},
    "route.compression": {"route.compression.routes": (f"{AT_TIMES}header content-encoding", f"{AT_TIMES}header vary")},
    "route.retries": {"route.retries.untried": "tries"},
    "listener.timeouts": {
        "listener.timeouts.head": f"{AT_TIMES}status 408",
        "listener.timeouts.reading": f"{AT_TIMES}time",
    },
    "pool.health.passive": {"pool.health.passive.tries_count": f"{AT_TIMES}endpoint"},
    "statuses.failures": {
        "statuses.failures.kept_close": "other",
        "statuses.failures.kept_connect": "other",
        "statuses.failures.kept_no_retry": ("tries", "closed"),
    },
    "access_log": {"access_log.cut": "log"},
    "framing.malformed": {
        "framing.malformed.http10": "saw version",
        "framing.malformed.http10_chunks": "header transfer-encoding: chunked",
        "framing.malformed.reset_until_close": "whole",
        "framing.malformed.short_response": f"{AT_TIMES}time",
    },
}

_REFUSED = {
    "listener.l4.udp": "HAProxy does not proxy UDP",
    "route.retries.budget": "HAProxy does not count its retries against its requests",
    "timeouts.request": "HAProxy has no timer for a whole request",
    "engines.forwarding.direct": "it forwards bytes itself, so replies come back through it",
}


_SINCE_2_8: dict[str, str | tuple[str, ...]] = {
    "listener.timeouts.body": ("status 504", "time"),
    "listener.timeouts.kept": f"{AT_TIMES}time",
}
# What HAProxy does where a clause is left to it.
HABITS = {
    "paths": "a path that can be read in two ways is refused",
    "framing": _HABITS["framing.malformed"],
    "connection_options": _HABITS["headers.connection_nominated"],
    "answers": _HABITS["statuses.failures"],
}


@cache
def support(version: str) -> VerdictTable:
    """What that version does of itself in its own way; it has the rest without more."""
    table = (
        condition_verdicts(CONDITIONS)
        | {feature: emulated(how) for feature, how in _EMULATED.items()}
        | {feature: habit(what, _DIFFERS.get(feature)) for feature, what in _HABITS.items()}
        | {feature: refused(why) for feature, why in _REFUSED.items()}
        | {"engines.verbatim": UNPORTABLE, "access_log.l4": NATIVE}
    )
    if version == "2.6":
        note = f"{_HABITS['listener.timeouts']}; a body that stops ends with the response time"
        table["listener.timeouts"] = habit(note, _DIFFERS["listener.timeouts"] | _SINCE_2_8, where_bodies_are_forwarded)
    return VerdictTable(table)
