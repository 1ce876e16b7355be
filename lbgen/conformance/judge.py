"""Compare an answer with the oracle and the literals of a case: differences, one sentence each."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lbgen.conformance.difference import WAITED, Difference, Kind
from lbgen.conformance.header_comparison import combine_lines, header_differences, literal_differences, lookup
from lbgen.conformance.own_answers import (
    account_of,
    check_dropped,
    check_refused,
    check_unanswered,
    in_time,
    own_differences,
)
from lbgen.plan.compression import compresses
from lbgen.plan.forwarding import DEFAULT_PORTS
from lbgen.plan.request import Headers, Request, connection_options
from lbgen.records import replace
from lbgen.runtime.standins.http1 import CONTROL, NAME, SEEN, body_of
from lbgen.runtime.standins.stand_in import Behaviour

if TYPE_CHECKING:
    from lbgen.conformance.case import Case, Expect
    from lbgen.conformance.http1_client import Answer
    from lbgen.plan.model import HeaderEdits
    from lbgen.plan.simulate import Outcome, Upstream

# Framing and connection handling belong to each hop; Date may be added by a proxy (RFC 9110 6.6.1).
_HOP = frozenset({"connection", "content-length", "date", "keep-alive", "transfer-encoding"})
# Unlisted: how the body is framed, and what the hop to the endpoint says about its own connection.
_UPSTREAM_HOP = frozenset({"connection", "content-length", "expect", "host", "transfer-encoding"})
_PLAIN = (("content-type", "text/plain"),)
_UPGRADE = frozenset({"sec-websocket-accept", "upgrade"})
# Response fields of the endpoint's connection alone, which no client sees, like those that its Connection names.
_ENDED = frozenset({"connection", "keep-alive", "proxy-connection", "te", "upgrade"})
_FRAMING = frozenset({"content-length", "host", "transfer-encoding"})


def behaviour_of(case: Case) -> Behaviour:
    """What the request asks the stand-in to do (with steps: at the try that `tries` says is the last)."""
    for name, value in case.request.headers:
        if name.lower() == CONTROL:
            return Behaviour.parse(json.loads(value)).step((case.expect.tries or 1) - 1)
    return Behaviour()


def contradictions(expect: Expect, outcome: Outcome) -> Iterator[str]:
    """Where a case's literals and the oracle disagree: then one of the two is wrong."""
    if expect.route is not None and expect.route != (outcome.route or ""):
        yield f"oracle: route {outcome.route}, case: {expect.route}"
    if expect.fault is not None or expect.pool is not None:
        if not outcome.upstreams:
            yield f"oracle: answers {outcome.status} by itself, case: forwarded"
        elif expect.pool is not None and expect.pool not in {u.pool for u in outcome.upstreams if u.weight}:
            yield f"oracle: pools {[u.pool for u in outcome.upstreams]}, case: {expect.pool}"
    elif not outcome.upstreams and {outcome.status, *outcome.others}.isdisjoint(expect.statuses or (outcome.status,)):
        yield f"oracle: status {outcome.status}, case: {expect.status}"
    elif (expect.location is not None or expect.refused) and outcome.upstreams:
        yield "oracle: forwarded, case: answered by the proxy"
    if expect.location is not None and expect.location != outcome.location:
        yield f"oracle: location {outcome.location}, case: {expect.location}"
    for upstream in outcome.upstreams:
        for name in ("method", "target", "host"):
            want = getattr(expect, name)
            if want is not None and want != getattr(upstream, name):
                yield f"oracle: {name} {getattr(upstream, name)!r}, case: {want!r}"
        if expect.pool in (None, upstream.pool):
            arrived = combine_lines((n, "\0" if v is None else v) for n, v in upstream.headers)
            yield from literal_differences("oracle: to the endpoint", expect.sends, arrived)


def differences(case: Case, outcome: Outcome, answer: Answer, own: Iterable[tuple[str, str]] = ()) -> Iterator[str]:
    """What is not as the oracle and the case say; nothing = pass. `own`: headers that the engine's own answers have by
    its verdict, see `prepare.own_headers`."""
    expect = case.expect
    if expect.refused or expect.unanswered:
        yield from check_refused(answer) if expect.refused else check_unanswered(answer, expect)
        return
    if answer.status is None:
        yield f"no answer: {answer.problem}; got {answer.raw[:120]!r}"
        return
    answer = decompress(answer, outcome, behaviour_of(case))
    if answer.problem and not expect.cut:
        yield f"answer {answer.status}: {answer.problem}"
    if expect.cut and answer.complete:
        yield Difference("the body is complete, it should be cut", Kind.WHOLE)
    if (made := own_differences(expect, outcome, answer)) is not None:
        yield from made
        yield from _handshake(expect, answer)
        return
    if outcome.status is not None:
        yield from _proxy_made(case, answer, outcome.status, outcome.body, outcome.headers, outcome, own)
    else:
        yield from _forwarded(case, outcome, answer)
    yield from _literals(expect, answer)


def raw_differences(case: Case, answer: Answer) -> Iterator[str]:
    """As `differences`, for bytes that the oracle does not simulate."""
    if case.expect.refused:
        yield from check_refused(answer)
    elif case.expect.unanswered:
        yield from check_unanswered(answer, case.expect)
    elif case.expect.dropped:
        yield from check_dropped(case, answer)
    elif answer.status is None:
        yield f"no answer: {answer.problem}; got {answer.raw[:120]!r}"
    else:
        yield from _literals(case.expect, answer)


def apply_edits(headers: Iterable[tuple[str, str]], edits: HeaderEdits) -> Headers:
    """`headers` after remove, set and add (new names in lower case)."""
    gone = {*edits.remove, *(name for name, _ in edits.set)}
    return (*((n, v) for n, v in headers if n.lower() not in gone), *edits.set, *edits.add)


def _proxy_made(
    case: Case,
    answer: Answer,
    status: int,
    body: str | None,
    headers: Headers,
    outcome: Outcome,
    own: Iterable[tuple[str, str]],
) -> Iterator[str]:
    if account_of(answer) is not None:
        yield f"status {status} by the proxy expected, an endpoint answered: {answer.body[:200]!r}"
        return
    if answer.status != status and not (_is_preflight(case.request) and {answer.status, status} == {200, 204}):
        yield f"status {answer.status}, expected {status} ({outcome.reason})"
        return
    bodiless = case.request.method == "HEAD" or status in (204, 304)
    if body is not None and answer.body != (b"" if bodiless else body.encode("latin-1")):
        yield f"body {answer.body!r}, expected {b'' if bodiless else body.encode('latin-1')!r}"
    headers = apply_edits(headers, outcome.cors_edits)
    expected = [h for h in apply_edits(headers, outcome.response_edits) if h[0].lower() != "location"]
    extra = {*outcome.free, *(("location",) if outcome.location is not None else ())}
    if not body:  # a redirect's body is its own affair, and so is the type of none
        extra |= {"content-type"}
    asked = {name.lower() for name, _ in expected}
    extra |= {name for name, value in own if answer.header(name) == value and name not in asked}
    yield from header_differences("answer", expected, answer.headers, _HOP | extra)
    if outcome.location is not None and tuple(map(without_default_port, answer.lines("location"))) != (
        outcome.location,
    ):
        yield f"location {answer.header('location')!r}, expected {outcome.location!r}"


def without_default_port(location: str) -> str:
    """`location` without the port that its scheme has by itself, which some engines write."""
    scheme, mark, rest = location.partition("://")
    host, slash, path = rest.partition("/")
    return (
        f"{scheme}{mark}{host.removesuffix(f':{DEFAULT_PORTS[scheme]}')}{slash}{path}"
        if scheme in DEFAULT_PORTS
        else location
    )


def _forwarded(case: Case, outcome: Outcome, answer: Answer) -> Iterator[str]:
    account = account_of(answer)
    if case.expect.cut and answer.header(NAME) is not None:
        return
    if account is None:
        wanted = [u.pool for u in outcome.upstreams]
        sentence = f"status {answer.status} {answer.body[:80]!r}, expected an answer of {wanted}"
        yield Difference(sentence, Kind.FAILED if answer.status in WAITED else Kind.OTHER)
        return
    upstream = next((u for u in outcome.upstreams if u.pool == account["pool"] and u.weight), None)
    if upstream is None:
        pools = [u.pool for u in outcome.upstreams if u.weight]
        yield f"pool {account['pool']}, expected {pools} (route {outcome.route})"
        return
    yield from _arrived(upstream, account, case)
    behaviour = behaviour_of(case)
    status = 101 if case.websocket is not None else behaviour.status if behaviour.mode == "fixed" else 200
    if answer.status != status:
        yield f"status {answer.status}, the endpoint said {status}"
    sent: list[tuple[str, str]] = [*behaviour.headers]
    if behaviour.mode == "fixed":
        body = b"" if case.request.method == "HEAD" or status in (204, 304) else body_of(behaviour)
        if answer.body != body and not case.expect.cut:
            yield f"body {answer.body[:200]!r}, the endpoint said {body[:200]!r}"
    elif status == 200:
        sent.append(("content-type", "application/json"))
    shown = [h for h in answer.headers if h[0] not in (NAME, SEEN)]
    if upstream.set_cookies:
        shown, problem = _without_cookie(upstream.set_cookies[int(account["name"].rpartition("-")[2])], shown)
        yield from problem
    options = connection_options(v for n, v in sent if n.lower() == "connection") - _FRAMING
    kept: Headers = tuple((n, v) for n, v in sent if n.lower() not in _ENDED | options)
    free = _UPGRADE if status == 101 else frozenset[str]()
    if _compressed(case, outcome, behaviour, kept, answer):
        kept = tuple((n, f"W/{v}" if n.lower() == "etag" and v.startswith('"') else v) for n, v in kept)
        kept = (*kept, ("content-encoding", "gzip"), ("vary", "Accept-Encoding"))
        free |= {"etag"}
    elif outcome.compression is not None:  # caches may be told of the other form, too
        shown = [(n, _without_encoding(v) if n == "vary" else v) for n, v in shown]
        shown = [(n, v) for n, v in shown if v or n != "vary"]
    expected = apply_edits(apply_edits(kept, outcome.cors_edits), outcome.response_edits)
    named = {n.lower() for n, _ in expected}
    yield from header_differences("answer", expected, shown, (_HOP | free) - named)


def _without_cookie(want: str, headers: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """`headers` without the sticky Set-Cookie, and what is wrong with it; attributes stand in any order and case."""
    name = want.partition("=")[0]
    found = [v for n, v in headers if n == "set-cookie" and v.partition("=")[0] == name]
    rest = [(n, v) for n, v in headers if n != "set-cookie" or v not in found]
    if [_attributes(one) for one in found] == [_attributes(want)]:
        return rest, []
    return rest, [f"answer: set-cookie {found}, expected {want!r}"]


def _attributes(cookie: str) -> tuple[str, list[str]]:
    pair, *attributes = (one.strip() for one in cookie.split(";"))
    return pair, sorted(one.lower() for one in attributes)


def _compressed(case: Case, outcome: Outcome, behaviour: Behaviour, sent: Headers, answer: Answer) -> bool:
    """Whether the proxy should have compressed that answer; its body is plain here."""
    if outcome.compression is None or case.request.method == "HEAD":
        return False
    if behaviour.mode == "half_close" and answer.header("content-encoding") is None:
        return False  # an answer that ends with its connection may be left as it is
    fixed = behaviour.mode == "fixed"
    unsized = behaviour.mode in ("drip", "half_close") or (fixed and (behaviour.chunked or bool(behaviour.trailers)))
    accepted = [v for n, v in case.request.headers if n.lower() == "accept-encoding"]
    lower = [(n.lower(), v) for n, v in sent]
    status = behaviour.status if fixed else 200
    return compresses(outcome.compression, accepted, status, lower, None if unsized else len(answer.body))


def _without_encoding(vary: str) -> str:
    return ", ".join(x.strip() for x in vary.split(",") if x.strip().lower() != "accept-encoding")


def decompress(answer: Answer, outcome: Outcome, behaviour: Behaviour) -> Answer:
    """`answer` with the body as the endpoint sent it, where the proxy compressed it."""
    own = any(n.lower() == "content-encoding" for n, _ in behaviour.headers)
    if outcome.compression is None or own or answer.header("content-encoding") != "gzip" or not answer.body:
        return answer
    try:
        return replace(answer, body=gzip.decompress(answer.body))
    except (OSError, EOFError, zlib.error) as error:
        return replace(answer, problem=f"the body is no gzip: {error}")


def _arrived(upstream: Upstream, account: dict[str, Any], case: Case) -> Iterator[str]:
    for name, want in (("method", upstream.method), ("target", upstream.target)):
        if account[name] != want:
            yield f"to the endpoint: {name} {account[name]!r}, expected {want!r}"
    headers: list[tuple[str, str]] = [(n.lower(), v) for n, v in account["headers"]]
    hosts = [v for n, v in headers if n == "host"]
    if upstream.host is not None and hosts != [upstream.host]:
        yield f"to the endpoint: Host {hosts}, expected {upstream.host!r}"
    if account["body_length"] != len(case.request.body) and not _framed(case.request):
        yield f"to the endpoint: {account['body_length']} bytes of body, expected {len(case.request.body)}"
    elif account["body_length"] and account["body_sha256"] != hashlib.sha256(case.request.body).hexdigest():
        yield "to the endpoint: the body is not what was sent"
    made = {n for n, v in upstream.headers if v is None}
    known = [(n, v) for n, v in upstream.headers if v is not None]
    yield from header_differences("to the endpoint", known, headers, _UPSTREAM_HOP | made | {"te"})
    if account.get("version") == "2" and _asks_for_trailers(case.request) and ("te", "trailers") not in headers:
        yield "to the endpoint: te is missing"
    for name in sorted(made):
        if not any(n == name and v for n, v in headers):
            yield f"to the endpoint: {name} is missing"
    if len([1 for n, _ in headers if n == "x-forwarded-for"]) > 1:
        yield "to the endpoint: x-forwarded-for on several lines"


def _is_preflight(request: Request) -> bool:
    return request.method == "OPTIONS" and any(n.lower() == "access-control-request-method" for n, _ in request.headers)


def _asks_for_trailers(request: Request) -> bool:
    return any(n.lower() == "te" and "trailers" in v.lower() for n, v in request.headers)


def _framed(request: Request) -> bool:
    return any(n.lower() == "content-length" for n, _ in request.headers)


def _literals(expect: Expect, answer: Answer) -> Iterator[str]:
    account = account_of(answer)
    if expect.statuses and answer.status not in expect.statuses:
        yield f"status {answer.status}, expected {' or '.join(map(str, expect.statuses))}"
    if expect.body is not None and answer.body != expect.body.encode():
        yield f"body {answer.body!r}, expected {expect.body.encode()!r}"
    if expect.location is not None and answer.header("location") != expect.location:
        yield f"location {answer.header('location')!r}, expected {expect.location!r}"
    if account is not None:
        for name in ("pool", "method", "target"):
            want = getattr(expect, name)
            if want is not None and account[name] != want:
                yield f"to the endpoint: {name} {account[name]!r}, expected {want!r}"
        arrived = combine_lines((n, v) for n, v in account["headers"])
        if expect.host is not None and arrived.get("host") != expect.host:
            yield f"to the endpoint: Host {arrived.get('host')!r}, expected {expect.host!r}"
        yield from literal_differences("to the endpoint", expect.sends, arrived)
        for path, value in expect.saw.items():
            if (found := lookup(account, path)) != value:
                yield f"the endpoint saw {path} {found!r}, expected {value!r}"
    elif expect.pool is not None and expect.fault is None:
        yield f"status {answer.status}, expected an answer of pool {expect.pool}"
    yield from literal_differences("answer", expect.shows, combine_lines(answer.headers))
    yield from literal_differences("trailers", expect.trailers, combine_lines(answer.trailers))
    yield from _handshake(expect, answer)
    yield from in_time(expect, answer)


def _handshake(expect: Expect, answer: Answer) -> Iterator[str]:
    for name, value in expect.tls.items():
        got = None if answer.handshake is None else getattr(answer.handshake, name)
        if (value not in got) if isinstance(got, tuple) else (value != got):
            yield f"TLS: {name} {got!r}, expected {value!r}"
