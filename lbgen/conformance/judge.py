"""Compare an answer, and what reached its endpoint, with the oracle and the literals of a case."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lbgen.conformance.difference import Difference, Kind
from lbgen.conformance.own_answers import (
    account_of,
    check_dropped,
    check_refused,
    check_unanswered,
    in_time,
    no_answer,
    own_differences,
)
from lbgen.conformance.pages import intercepted, own_pages, page_differences
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.compression import compresses
from lbgen.plan.error_pages import page_for
from lbgen.plan.forwarding import DEFAULT_PORTS, apply_edits
from lbgen.plan.own_statuses import FAILURES
from lbgen.plan.request import Headers, Request, connection_options
from lbgen.plan.simulate import Outcome, Upstream
from lbgen.plan.values import text_pattern
from lbgen.runtime.standins.http1 import CONTROL, NAME, SEEN, body_of
from lbgen.runtime.standins.stand_in import Behaviour

if TYPE_CHECKING:
    from lbgen.conformance.case import Case, Expect
    from lbgen.conformance.http1_client import Answer

# Framing and connection handling belong to each hop; Date may be added by a proxy (RFC 9110 6.6.1).
_HOP = frozenset({"connection", "content-length", "date", "keep-alive", "transfer-encoding"})
# Unlisted: how the body is framed, and what the hop to the endpoint says about its own connection.
_UPSTREAM_HOP = frozenset({"connection", "content-length", "expect", "host", "transfer-encoding"})
_PLAIN = (("content-type", "text/plain"),)
_AT_ENDPOINT = "to the endpoint"
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


def contradictions(expect: Expect, outcome: Outcome) -> Iterator[Difference]:
    """Where a case's literals and the oracle disagree: then one of the two is wrong."""

    def wrong(oracle: object, case: object) -> Difference:
        return Difference(Kind.OTHER, f"oracle: {oracle}, case: {case}")

    if expect.route is not None and expect.route != (outcome.route or ""):
        yield wrong(f"route {outcome.route}", expect.route)
    if expect.denied:
        if not outcome.asked:
            yield wrong("no service is asked", "denied")
        return
    if expect.fault is not None or expect.pool is not None:
        if not outcome.upstreams:
            yield wrong(f"answers {outcome.status} by itself", "forwarded")
        elif expect.pool is not None and expect.pool not in {u.pool for u in outcome.upstreams if u.weight}:
            yield wrong(f"pools {[u.pool for u in outcome.upstreams]}", expect.pool)
    elif not outcome.upstreams and {outcome.status, *outcome.others}.isdisjoint(expect.statuses or (outcome.status,)):
        yield wrong(f"status {outcome.status}", expect.status)
    elif (expect.location is not None or expect.refused) and outcome.upstreams:
        yield wrong("forwarded", "answered by the proxy")
    if expect.location is not None and expect.location != outcome.location:
        yield wrong(f"location {outcome.location}", expect.location)
    for upstream in outcome.upstreams:
        for name in ("method", "target", "host"):
            want = getattr(expect, name)
            if want is not None and want != getattr(upstream, name):
                yield wrong(f"{name} {getattr(upstream, name)!r}", repr(want))
        if expect.pool in (None, upstream.pool):
            arrived = combine_lines((n, "\0" if v is None else v) for n, v in upstream.headers)
            open_ = {*upstream.free, *dict(upstream.patterns)}
            sends = {name: value for name, value in expect.sends.items() if name not in open_}
            yield from literal_differences("oracle: to the endpoint", sends, arrived)


def differences(
    case: Case, outcome: Outcome, answer: Answer, own: Iterable[tuple[str, str]] = ()
) -> Iterator[Difference]:
    """What is not as the oracle and the case say; nothing = pass. `own`: headers that the engine's own answers have by
    its verdict, see `prepare.own_headers`."""
    expect = case.expect
    if expect.refused or expect.unanswered:
        yield from check_refused(answer) if expect.refused else check_unanswered(answer, expect)
        return
    if answer.status is None:
        yield no_answer(answer)
        return
    answer = decompress(answer, outcome, behaviour_of(case))
    if answer.problem and not expect.cut:
        yield Difference(Kind.OTHER if answer.complete else Kind.CUT, f"answer {answer.status}: {answer.problem}")
    if expect.cut and answer.complete:
        yield Difference(Kind.WHOLE, "the body is complete, it should be cut")
    if expect.denied or _of_service(outcome, answer):
        yield from _denied(expect, outcome, answer)
        return
    if (paged := _page(case, outcome, answer)) is not None:
        yield from paged
        yield from _literals(expect, answer)
        return
    if (made := own_differences(expect, outcome, answer)) is not None:
        yield from made
        yield from _edit_differences(outcome, answer) if not made else ()
        yield from _shown(expect, answer)
        return
    if outcome.status is not None:
        yield from _proxy_made(case, answer, outcome.status, outcome.body, outcome.headers, outcome, own)
    else:
        yield from _forwarded(case, outcome, answer)
    yield from _literals(expect, answer)


def _of_service(outcome: Outcome, answer: Answer) -> bool:
    """Whether the service that was asked made the answer."""
    account, auth = account_of(answer), outcome.auth
    if account is None or not isinstance(auth, ForwardAuth) or account["pool"] != outcome.asked:
        return False
    return account["pool"] not in _pools(outcome) or account["target"] == auth.target


def _pools(outcome: Outcome) -> set[str]:
    return {upstream.pool for upstream in outcome.upstreams}


def _denied(expect: Expect, outcome: Outcome, answer: Answer) -> Iterator[Difference]:
    """Differences of an answer that the service which was asked, or the proxy, has to make."""
    if not expect.denied or (account_of(answer) is not None and not _of_service(outcome, answer)):
        yield Difference(Kind.ACCEPTED, f"answer {answer.status} of {account_of(answer)}: {answer.body[:80]!r}")
    if outcome.login is not None and answer.status == HTTPStatus.FOUND and not _of_service(outcome, answer):
        address = text_pattern(outcome.login)
        if not re.fullmatch(address, answer.header("location") or ""):
            yield Difference(Kind.HEADER, answer.header("location"), address, "location", "answer")
    yield from _literals(expect, answer)


def _page(case: Case, outcome: Outcome, answer: Answer) -> list[Difference] | None:
    """What is wrong with an answer that has to be an error page; None where none has to come."""
    if not outcome.error_pages or not outcome.well_formed:
        return None
    instead = intercepted(outcome, behaviour_of(case), case.expect)
    known = own_pages(case.expect, outcome) if instead is None else {instead[0]: (instead[1],)}
    pages = known.get(answer.status or 0, ())
    paged = [page for page in map(partial(page_for, outcome.error_pages), FAILURES) if page is not None]
    if not pages and (instead is not None or (case.expect.fault is not None and len(paged) == len(FAILURES))):
        return [Difference(Kind.STATUS, answer.status, " or ".join(map(str, known)))]
    if not pages:
        return None
    if instead is None and case.expect.fault is None and not outcome.made and account_of(answer) is not None:
        return None  # an endpoint's answer, where a limit could have been met
    if instead is None and account_of(answer) is not None:
        return [Difference(Kind.ACCEPTED, f"a page expected, an endpoint answered: {answer.body[:200]!r}")]
    return list(page_differences(case.request.method, pages, outcome, answer))


def raw_differences(case: Case, answer: Answer) -> Iterator[Difference]:
    """As `differences`, for bytes that the oracle does not simulate."""
    if case.expect.refused:
        yield from check_refused(answer)
    elif case.expect.unanswered:
        yield from check_unanswered(answer, case.expect)
    elif case.expect.dropped:
        yield from check_dropped(case, answer)
    elif answer.status is None:
        yield no_answer(answer)
    else:
        yield from _literals(case.expect, answer)


def _proxy_made(
    case: Case,
    answer: Answer,
    status: int,
    body: str | None,
    headers: Headers,
    outcome: Outcome,
    own: Iterable[tuple[str, str]],
) -> Iterator[Difference]:
    if account_of(answer) is not None:
        yield Difference(
            Kind.ACCEPTED, f"status {status} by the proxy expected, an endpoint answered: {answer.body[:200]!r}"
        )
        return
    if answer.status != status and not (_is_preflight(case.request) and {answer.status, status} == {200, 204}):
        yield Difference(Kind.STATUS, answer.status, status, why=outcome.reason)
        return
    bodiless = case.request.method == "HEAD" or status in (204, 304)
    text = b"" if bodiless or body is None else body.encode("latin-1")
    if body is not None and answer.body != text:
        yield Difference(Kind.BODY, repr(answer.body), repr(text))
    edited = apply_edits(headers, outcome.cors_edits, outcome.response_edits)
    expected = [line for line in edited if line[0].lower() != "location"]
    extra = {*outcome.free, *(("location",) if outcome.location is not None else ())}
    if not body:  # a redirect's body is its own affair, and so is the type of none
        extra |= {"content-type"}
    asked = {name.lower() for name, _ in expected}
    extra |= {name for name, value in own if answer.header(name) == value and name not in asked}
    yield from header_differences("answer", expected, answer.headers, _HOP | extra)
    yield from _pattern_differences("answer", outcome.patterns, answer.headers)
    if (
        outcome.location is not None
        and "location" not in outcome.free
        and tuple(map(without_default_port, answer.lines("location"))) != (outcome.location,)
    ):
        yield Difference(Kind.HEADER, answer.header("location"), outcome.location, "location", "answer")


def without_default_port(location: str) -> str:
    """`location` without the port that its scheme has by itself, which some engines write."""
    scheme, mark, rest = location.partition("://")
    host, slash, path = rest.partition("/")
    return (
        f"{scheme}{mark}{host.removesuffix(f':{DEFAULT_PORTS[scheme]}')}{slash}{path}"
        if scheme in DEFAULT_PORTS
        else location
    )


def _forwarded(case: Case, outcome: Outcome, answer: Answer) -> Iterator[Difference]:
    account = account_of(answer)
    if case.expect.cut and answer.header(NAME) is not None:
        return
    if account is None:
        wanted, got = f"an answer of {[u.pool for u in outcome.upstreams]}", repr(answer.body[:80])
        if answer.header(NAME) is not None:
            yield Difference(Kind.CUT, f"status {answer.status} {got}", wanted)
        else:
            yield Difference(Kind.STATUS, answer.status, wanted, why=got)
        return
    upstream = next((u for u in outcome.upstreams if u.pool == account["pool"] and u.weight), None)
    if upstream is None:
        pools = str([u.pool for u in outcome.upstreams if u.weight])
        yield Difference(Kind.POOL, account["pool"], pools, why=f"route {outcome.route}")
        return
    yield from _arrived(upstream, account, case)
    behaviour = behaviour_of(case)
    status = 101 if case.websocket is not None else behaviour.status if behaviour.mode == "fixed" else 200
    if answer.status != status:
        yield Difference(Kind.STATUS, answer.status, status, why="the endpoint's")
    sent: list[tuple[str, str]] = [*behaviour.headers]
    if behaviour.mode == "fixed":
        body = b"" if case.request.method == "HEAD" or status in (204, 304) else body_of(behaviour)
        if answer.body != body and not case.expect.cut:
            yield Difference(Kind.BODY, repr(answer.body[:200]), repr(body[:200]), why="the endpoint's")
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
    expected = apply_edits(kept, outcome.cors_edits, outcome.response_edits)
    named = {n.lower() for n, _ in expected}
    yield from header_differences("answer", expected, shown, ((_HOP | free) - named) | {*outcome.free})
    yield from _pattern_differences("answer", outcome.patterns, shown)


def _without_cookie(want: str, headers: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[Difference]]:
    """`headers` without the sticky Set-Cookie, and what is wrong with it; attributes stand in any order and case."""
    name = want.partition("=")[0]
    found = [v for n, v in headers if n == "set-cookie" and v.partition("=")[0] == name]
    rest = [(n, v) for n, v in headers if n != "set-cookie" or v not in found]
    if [_attributes(one) for one in found] == [_attributes(want)]:
        return rest, []
    return rest, [Difference(Kind.HEADER, "\n".join(found) or None, want, "set-cookie", "answer")]


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


def _arrived(upstream: Upstream, account: dict[str, Any], case: Case) -> Iterator[Difference]:
    yield from _of_account(account, upstream)
    headers: list[tuple[str, str]] = [(n.lower(), v) for n, v in account["headers"]]
    hosts = [v for n, v in headers if n == "host"]
    if upstream.host is not None and hosts != [upstream.host]:
        yield Difference(Kind.HEADER, ", ".join(hosts), upstream.host, "host", _AT_ENDPOINT)
    if account["body_length"] != len(case.request.body) and not _framed(case.request):
        length = f"{account['body_length']} bytes of body"
        yield Difference(Kind.OTHER, length, len(case.request.body), place=_AT_ENDPOINT)
    elif account["body_length"] and account["body_sha256"] != hashlib.sha256(case.request.body).hexdigest():
        yield Difference(Kind.OTHER, "the body is not what was sent", place=_AT_ENDPOINT)
    made = {n for n, v in upstream.headers if v is None}
    known = [(n, v) for n, v in upstream.headers if v is not None]
    free = _UPSTREAM_HOP | made | {"te", *upstream.free, *dict(upstream.patterns)}
    yield from header_differences(_AT_ENDPOINT, known, headers, free)
    yield from _pattern_differences(_AT_ENDPOINT, upstream.patterns, headers)
    if account.get("version") == "2" and _asks_for_trailers(case.request) and ("te", "trailers") not in headers:
        yield Difference(Kind.HEADER, None, "trailers", "te", _AT_ENDPOINT)
    for name in sorted(made):
        if not any(n == name and v for n, v in headers):
            yield Difference(Kind.HEADER, None, "", name, _AT_ENDPOINT)
    if len(lines := [v for n, v in headers if n == "x-forwarded-for"]) > 1:
        yield Difference(Kind.HEADER, "\n".join(lines), "", "x-forwarded-for", _AT_ENDPOINT, why="on one line")


def _is_preflight(request: Request) -> bool:
    return request.method == "OPTIONS" and any(n.lower() == "access-control-request-method" for n, _ in request.headers)


def _asks_for_trailers(request: Request) -> bool:
    return any(n.lower() == "te" and "trailers" in v.lower() for n, v in request.headers)


def _framed(request: Request) -> bool:
    return any(n.lower() == "content-length" for n, _ in request.headers)


def _literals(expect: Expect, answer: Answer) -> Iterator[Difference]:
    account = account_of(answer)
    if expect.statuses and answer.status not in expect.statuses:
        yield Difference(Kind.STATUS, answer.status, _or(expect.statuses))
    if account is not None:
        if expect.pool not in (None, account["pool"]):
            yield Difference(Kind.POOL, account["pool"], expect.pool, place=_AT_ENDPOINT)
        yield from _of_account(account, expect)
        arrived = combine_lines((n, v) for n, v in account["headers"])
        sends = expect.sends if expect.host is None else {**expect.sends, "host": expect.host}
        yield from literal_differences(_AT_ENDPOINT, sends, arrived)
        for path, value in expect.saw.items():
            if (found := lookup(account, path)) != value:
                yield Difference(Kind.SAW, str(found), str(value), path, "the endpoint saw")
    elif expect.pool is not None and expect.fault is None:
        yield Difference(Kind.STATUS, answer.status, f"an answer of pool {expect.pool}")
    yield from _shown(expect, answer)


def _shown(expect: Expect, answer: Answer) -> Iterator[Difference]:
    """What is not as the case says of an answer, whoever made it, but for its status."""
    if expect.body is not None and answer.body != expect.body.encode():
        yield Difference(Kind.BODY, repr(answer.body), repr(expect.body.encode()))
    if expect.location is not None and answer.header("location") != expect.location:
        yield Difference(Kind.HEADER, answer.header("location"), expect.location, "location", "answer")
    yield from literal_differences("answer", expect.shows, combine_lines(answer.headers))
    yield from literal_differences("trailers", expect.trailers, combine_lines(answer.trailers))
    yield from _handshake(expect, answer)
    yield from in_time(expect, answer)


def _edit_differences(outcome: Outcome, answer: Answer) -> Iterator[Difference]:
    """Differences from the edits of the route in an answer that the engine makes, whose other fields are its own."""
    for name, value in apply_edits((), outcome.cors_edits, outcome.response_edits):
        if name not in outcome.free and value not in (got := ", ".join(answer.lines(name))):
            yield Difference(Kind.HEADER, got or None, value, name, "answer")


def _of_account(account: dict[str, Any], want: Upstream | Expect) -> Iterator[Difference]:
    for kind, expected in ((Kind.METHOD, want.method), (Kind.TARGET, want.target)):
        if expected not in (None, account[kind]):
            yield Difference(kind, account[kind], expected, place=_AT_ENDPOINT)


def _or(statuses: Iterable[int]) -> int | str:
    """One status, or a choice of several."""
    first, *others = statuses
    return first if not others else " or ".join(map(str, (first, *others)))


def _handshake(expect: Expect, answer: Answer) -> Iterator[Difference]:
    for name, value in expect.tls.items():
        got = None if answer.handshake is None else getattr(answer.handshake, name)
        if (value not in got) if isinstance(got, tuple) else (value != got):
            shown = ", ".join(got) if isinstance(got, tuple) else got
            yield Difference(Kind.TLS, str(shown), str(value), name, "TLS")


def combine_lines(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def header_differences(
    where: str, expected: Iterable[tuple[str, str]], got: Iterable[tuple[str, str]], free: Iterable[str]
) -> Iterator[Difference]:
    """Differences of two header lists by combined value; names in `free` may come or not."""
    want = {n: v for n, v in combine_lines(expected).items() if n not in free}
    have = {n: v for n, v in combine_lines(got).items() if n not in free}
    for name in sorted(want.keys() | have.keys()):
        if name not in have or name not in want or not _equal(name, have[name], want[name]):
            yield Difference(Kind.HEADER, have.get(name), want.get(name), name, where)


def _pattern_differences(
    where: str, patterns: Iterable[tuple[str, str]], got: Iterable[tuple[str, str]]
) -> Iterator[Difference]:
    """Values that the oracle knows by a regular expression only; no line is an empty value."""
    have = combine_lines(got)
    for name, pattern in patterns:
        if not re.fullmatch(pattern, have.get(name, "")):
            yield Difference(Kind.HEADER, have.get(name), pattern, name, where)


def _equal(name: str, have: str, want: str) -> bool:
    return _same_elements(have, want) if name == "vary" else _same(have, want)


def _same(have: str, want: str) -> bool:
    """Equal up to RFC 9110 5.6.1 (blanks and empty elements of a list); text beyond ASCII travels as UTF-8."""
    return _loose(have) in (_loose(want), _loose(want.encode().decode("latin-1")))


def _same_elements(have: str, want: str) -> bool:
    """Equal as sets of words, such as header names."""
    return {x.strip().lower() for x in have.split(",")} == {x.strip().lower() for x in want.split(",")}


def _loose(text: str) -> str:
    parts = [part.strip(" \t") for part in text.split(",")]
    return ",".join(lookup for lookup in parts if lookup) or ",".join(parts)


def lookup(account: dict[str, Any], path: str) -> object:
    """The part of an account that a dotted path names; None when it is not there."""
    found: object = account
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def literal_differences(
    where: str, want: Mapping[str, str | bool | None], have: Mapping[str, str]
) -> Iterator[Difference]:
    """As `header_differences`, for literals of a case; True: any value will do."""
    for name, value in want.items():
        got = have.get(name)
        if (
            (value is None and got is not None)
            or (value is True and not got)
            or (isinstance(value, str) and (got is None or not _equal(name, got, value)) and got != "\0")
        ):
            yield Difference(Kind.HEADER, got or None, "" if value is True else value, name, where)
