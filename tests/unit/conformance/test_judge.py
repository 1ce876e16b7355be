"""The probe parses strictly and the judge sees every kind of difference."""

import json
import socket
import threading

import pytest
from msgspec.structs import replace

from lbgen.conformance import judge
from lbgen.conformance.case import Case, Expect, case_files
from lbgen.conformance.curl import curl
from lbgen.conformance.difference import Difference, Kind
from lbgen.conformance.http1_client import Answer, MalformedAnswerError, exchange, parse_head, serialize
from lbgen.conformance.judge import differences
from lbgen.conformance.own_answers import check_dropped, check_refused
from lbgen.conformance.prepare import DeclaredDifference, own_headers, plan_of
from lbgen.conformance.prepare import verdicts_on as near_of
from lbgen.plan.model import HeaderEdits
from lbgen.plan.request import Request
from lbgen.plan.simulate import Outcome, Upstream

REQUEST = Request("GET", "/a?b", (("Host", "h"), ("X-A", "1")))
SENT = (("host", "h"), ("x-a", "1"), ("x-forwarded-for", "127.0.0.1"), ("x-request-id", None))
FORWARD = Outcome("r", "r.0", None, "", upstreams=(Upstream("p", 1, "GET", "/a?b", "h", SENT),))
TOLD = {
    "name": "p-0",
    "pool": "p",
    "method": "GET",
    "target": "/a?b",
    "headers": [["Host", "h"], ["X-A", "1"], ["X-Forwarded-For", "127.0.0.1"], ["X-Request-Id", "7"]],
    "body_length": 0,
}


def answer(told=None, status=200, **more) -> Answer:
    headers = (("x-stand-in-name", "p-0"), ("content-type", "application/json"), *more.pop("headers", ()))
    body = json.dumps({**TOLD, **(told or {})}).encode()
    return Answer(status, "OK", "1.1", headers, body, complete=True, **more)


def judged(got: Answer, outcome: Outcome = FORWARD) -> list[Difference]:
    return list(differences(Case("x", "x", REQUEST, Expect()), outcome, got))


def test_what_is_right_passes() -> None:
    assert judged(answer()) == []
    assert judged(answer(headers=(("date", "now"), ("connection", "close")))) == []


@pytest.mark.parametrize(
    "got",
    [
        answer({"pool": "q"}),
        answer({"method": "POST"}),
        answer({"target": "/a"}),
        answer({"headers": [*TOLD["headers"], ["Via", "1"]]}),
        answer({"headers": TOLD["headers"][:3]}),
        answer({"headers": [["Host", "other"], *TOLD["headers"][1:]]}),
        answer({"headers": [*TOLD["headers"], ["X-Forwarded-For", "127.0.0.1"]]}),
        answer({"body_length": 3}),
        answer(status=201),
        answer(headers=(("server", "engine"),)),
        answer(headers=(("x-envoy-upstream-service-time", "1"),)),
        answer(problem="the body does not end"),
        Answer(404, "", "1.1", (), b"Not Found\n", complete=True),
        Answer(problem="no answer head (closed)"),
    ],
)
def test_what_is_wrong_does_not(got) -> None:
    assert judged(got)


def test_answers_of_the_proxy() -> None:
    outcome = Outcome(None, None, 404, "", "Not Found\n", headers=(("content-type", "text/plain"),))
    good = Answer(404, "", "1.1", (("content-type", "text/plain"),), b"Not Found\n", complete=True)
    assert judged(good, outcome) == []
    assert judged(replace(good, body=b"<html>"), outcome)
    assert judged(replace(good, headers=(("content-type", "text/html"),)), outcome)
    assert judged(replace(good, headers=(*good.headers, ("via", "x"))), outcome)
    assert judged(replace(good, headers=(*good.headers, ("server", "x/1"))), outcome)
    edited = replace(outcome, route="r", response_edits=HeaderEdits(set=(("x-b", "1"),)))
    assert judged(good, edited)
    assert judged(answer(), outcome)


def test_refused_means_any_4xx_or_closed_and_never_passed_on() -> None:
    assert not list(check_refused(Answer(400, "", "1.1")))
    assert not list(check_refused(Answer(after="closed")))
    assert list(check_refused(Answer(after="open")))
    assert not list(check_refused(Answer(404, "", "1.1")))
    assert list(check_refused(Answer(502, "", "1.1")))
    assert list(check_refused(answer(status=400)))


@pytest.mark.parametrize("head", [b"HTTP/2 200 OK\r\n\r\n", b"OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nA : 1\r\n\r\n"])
def test_odd_heads(head) -> None:
    with pytest.raises(MalformedAnswerError):
        parse_head(head)


def served(data: bytes) -> Answer:
    """What the probe makes of bytes from a server that then closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        got = exchange(server.getsockname(), serialize(REQUEST), timeout=2)
        thread.join()
        return got


def test_framings() -> None:
    assert served(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").body == b"hi"
    assert served(b"HTTP/1.1 100 C\r\n\r\nHTTP/1.0 200 OK\r\n\r\nall").body == b"all"
    assert served(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n").body == b"hi"
    assert not served(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi").complete
    assert not served(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n").complete
    assert served(b"HTTP/1.1 204 No\r\n\r\nhi").problem
    assert served(b"garbage\r\n\r\n").status is None
    both = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n"
    assert served(both).problem


def test_curl_lines() -> None:
    line = curl(("127.0.0.1", 1), Request("PUT", "/a?b=$x", (("Host", "h"), ("X", "it's"), ("Y", "")), body=b"a\xff"))
    assert "-X PUT" in line
    assert "-H 'X: it'\\''s'" in line
    assert "-H 'Y;'" in line
    assert "$'a\\xff'" in line
    assert "--request-target '*'" in curl(("127.0.0.1", 1), Request("OPTIONS", "*"))


@pytest.mark.parametrize(
    ("lines", "problems"),
    [
        (["LB=x; Path=/; HttpOnly; SameSite=Lax"], 0),
        (["LB=x; samesite=lax; httponly; path=/"], 0),
        (["own=1", "LB=x; Path=/; HttpOnly; SameSite=Lax"], 0),
        ([], 1),
        (["LB=y; Path=/; HttpOnly; SameSite=Lax"], 1),
        (["LB=x; Path=/; SameSite=Lax"], 1),
        (["LB=x; Path=/; HttpOnly; SameSite=Lax; Secure"], 1),
        (2 * ["LB=x; Path=/; HttpOnly; SameSite=Lax"], 1),
    ],
)
def test_a_sticky_cookie_is_compared_by_its_parts(lines, problems) -> None:
    headers = [("set-cookie", line) for line in lines]
    rest, found = judge._without_cookie("LB=x; Path=/; HttpOnly; SameSite=Lax", headers)
    assert len(found) == problems
    assert rest == [h for h in headers if h[1] == "own=1"]


@pytest.mark.parametrize(
    ("answer", "problems"),
    [
        (Answer(408, elapsed=1.0), 0),
        (Answer(None, after="closed", elapsed=1.0), 0),
        (Answer(None, after="reset", elapsed=1.0), 0),
        (Answer(None, after="open", elapsed=1.0), 1),
        (Answer(200, elapsed=1.0), 1),
        (Answer(408, elapsed=9.0), 1),
    ],
)
def test_a_slow_client_gets_408_or_is_cut_off(answer, problems) -> None:
    file = next(f for f in case_files() if f.name == "6-client-times")
    case = next(c for c in file.cases if c.id == "6.client-header.silent")
    assert len(list(check_dropped(case, answer))) == problems


def test_headers_of_the_engines_own_are_those_of_its_verdict() -> None:
    outcome = Outcome(None, None, 404, "", "Not Found\n", headers=(("content-type", "text/plain"),))
    got = Answer(404, "", "1.1", (("content-type", "text/plain"), ("server", "nginx")), b"Not Found\n", complete=True)
    case = Case("x", "x", REQUEST, Expect())
    assert list(differences(case, outcome, got)) == [Difference(Kind.HEADER, "nginx", None, "server", "answer")]
    assert list(differences(case, outcome, got, own_headers(judged_by("nginx")))) == []
    other = replace(got, headers=(("content-type", "text/plain"), ("server", "nginx/1.31.3")))
    assert list(differences(case, outcome, other, own_headers(judged_by("nginx"))))
    assert own_headers(judged_by("haproxy")) == frozenset()


def judged_by(engine: str) -> tuple[DeclaredDifference, ...]:
    file = next(each for each in case_files() if each.name == "5-statuses")
    return near_of(plan_of(file.topology), engine, {"nginx": "1.31", "haproxy": "2.8"}[engine]).near


@pytest.mark.parametrize(
    "expect", [Expect(shows={"x-a": "1"}), Expect(shows={"x-b": None}), Expect(body="mine"), Expect(location="/a")]
)
def test_what_a_case_says_of_the_engines_own_answer_counts(expect: Expect) -> None:
    refused = Outcome("r", "r.0", 403, "", body="Forbidden\n", made=True)
    edited = replace(refused, response_edits=HeaderEdits(set=(("x-b", "1"),)))
    got = Answer(403, "", "1.1", (("x-b", "1"),), b"<html>", complete=True)

    def found(expect: Expect, outcome: Outcome, answer: Answer) -> list[Difference]:
        return list(differences(Case("x", "x", REQUEST, expect), outcome, answer))

    assert found(Expect(shows={"x-b": "1"}), refused, got) == []
    assert found(Expect(), edited, got) == []
    assert found(Expect(), edited, replace(got, headers=()))
    assert found(expect, refused, got)
