"""Cases that one answer cannot tell: each function talks to a running engine and yields what is wrong."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.judge import account_of
from lbgen.conformance.probe import Answer, Stream, ask, echo, wire
from lbgen.plan.simulate import Request
from lbgen.runtime.standin import CONTROL, Behaviour

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.runtime.endpoints import Endpoints

Addresses = dict[str, tuple[str, int]]


def _get(target: str, *headers: tuple[str, str], method: str = "GET") -> Request:
    return Request(method, target, (("Host", "h"), *headers))


def _told(answer: Answer, what: str) -> str:
    told = account_of(answer)
    return str(told[what]) if told is not None else f"status {answer.status} {answer.problem}"


def pipelined_routes(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """Requests sent in one go are answered in order, and a body never becomes the next request."""
    del endpoints
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
    first = wire(Request("POST", "/1", (("Host", "h"),), body=smuggled))
    with Stream(at["web"]) as stream:
        stream.send(first + wire(_get("/2")) + wire(_get("/3", ("Connection", "close"))))
        targets = [_told(stream.answer(), "target") for _ in range(3)]
        left = stream.rest()
    if targets != ["/1", "/2", "/3"]:
        yield f"answers of {targets}, expected /1 /2 /3"
    if left:
        yield f"bytes after the last answer: {left[:100]!r}"


def keepalive_routes(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """On a kept connection each request is routed and edited by itself."""
    del endpoints
    with Stream(at["web"]) as stream:
        for number in range(5):
            stream.send(wire(_get(f"/{number}", ("X-N", str(number)))))
            answer = stream.answer()
            told = account_of(answer)
            if told is None or told["target"] != f"/{number}":
                yield f"request {number} on one connection: {_told(answer, 'target')}"
                return
            forwarded = [v for n, v in told["headers"] if n.lower() == "x-forwarded-for"]
            if forwarded != ["127.0.0.1"]:
                yield f"request {number} on one connection: X-Forwarded-For {forwarded}"


def request_ids_are_unique(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """A request id of an untrusted client is replaced by one that no other request has."""
    del endpoints
    seen: Counter[str] = Counter()
    with Stream(at["web"]) as stream:
        for _ in range(10):
            stream.send(wire(_get("/", ("X-Request-Id", "spoofed"))))
            told = account_of(stream.answer())
            if told is None:
                yield "no answer of an endpoint"
                return
            seen.update(v for n, v in told["headers"] if n.lower() == "x-request-id")
    if len(seen) != 10 or "spoofed" in seen:
        yield f"10 requests had the ids {dict(seen)}"


def one_attempt(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """Without retries a failed request was sent once."""
    for target in ("/two", "/p"):
        for mode in ("close", "reset", "garbage", "hang"):
            before = sum(endpoints.requests.values())
            answer = ask(at["web"], _get(target, (CONTROL, f'{{"mode": "{mode}"}}')))
            time.sleep(0.1)
            tries = sum(endpoints.requests.values()) - before
            if tries != 1:
                yield f"{target}, endpoint does {mode}: {tries} tries, answer {answer.status}"


def kept_connection_faults(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """A failing endpoint gets the same status on a kept client connection as on a new one."""
    yield from _kept(at, (("/refused", "", 502), ("/p", "close", 502), ("/p", "reset", 502), ("/p", "hang", 504)))
    del endpoints


def kept_connection_connect_time(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """So does a connect time that is over."""
    yield from _kept(at, (("/dropped", "", 504),))
    del endpoints


def _kept(at: Addresses, faults: tuple[tuple[str, str, int], ...]) -> Iterator[str]:
    for target, mode, status in faults:
        control = ((CONTROL, f'{{"mode": "{mode}"}}'),) if mode else ()
        with Stream(at["web"]) as stream:
            stream.send(wire(_get("/p")))
            if (first := stream.answer().status) != 200:
                yield f"first request: {first}"
                continue
            stream.send(wire(_get(target, *control)))
            answer = stream.answer()
        if answer.status != status:
            yield f"second request, {target} {mode}: {answer.status} {answer.problem}, expected {status}"


def nothing_ejected(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """Without passive health an endpoint that keeps failing keeps getting its share."""
    endpoints.behave("two-0", Behaviour("close"))
    try:
        answers = Counter(ask(at["web"], _get("/two")).status for _ in range(20))
    finally:
        endpoints.behave("two-0", Behaviour())
    if not (6 <= answers[502] <= 14 and answers[200] == 20 - answers[502]):
        yield f"one of two endpoints fails: answers {dict(answers)}, expected 10 times 502 and 10 times 200"


def websocket_outlives_response_time(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """A quiet tunnel lives longer than the response time (500 ms) if the idle time (3 s) allows it."""
    del endpoints
    with Stream(at["web"]) as stream:
        stream.send(wire(_get("/long", *HANDSHAKE)))
        if (status := stream.answer().status) != 101:
            yield f"status {status}, expected 101"
            return
        for number in range(2):
            time.sleep(1.2)
            if echo(stream, b"hello") != b"hello":
                yield f"the tunnel died within {1.2 * (number + 1):.1f} s of silence"
                return


def websocket_idle(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """A tunnel without traffic for the idle time (700 ms) is closed; traffic keeps it open."""
    del endpoints
    with Stream(at["web"]) as stream:
        stream.send(wire(_get("/short", *HANDSHAKE)))
        if (status := stream.answer().status) != 101:
            yield f"status {status}, expected 101"
            return
        for _ in range(4):
            time.sleep(0.35)
            if echo(stream, b"hello") != b"hello":
                yield "the tunnel died although it was used every 350 ms"
                return
        begun = time.monotonic()
        while stream.fill():
            pass
        took = time.monotonic() - begun
        if stream.end == "open" or not 0.4 <= took <= 2.5:
            yield f"after {took:.1f} s of silence the tunnel is {stream.end}, expected closed after 0.7 s"


def least_connections(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """A slow endpoint gets fewer requests than a fast one; evenly busy ones share evenly."""
    endpoints.behave("least-0", Behaviour("hang", wait_ms=400))
    try:
        with ThreadPoolExecutor(6) as pool:
            counts = Counter(pool.map(lambda _: _told(ask(at["web"], _get("/least")), "name"), range(60)))
    finally:
        endpoints.behave("least-0", Behaviour())
    if sum(counts.values()) != counts["least-0"] + counts["least-1"] or not counts["least-0"] < 24:
        yield f"of 60 requests, 6 at a time, with one slow endpoint: {dict(counts)}"
    slow = _get("/least", (CONTROL, '{"mode": "hang", "wait_ms": 700}'))
    with ThreadPoolExecutor(8) as pool:
        futures = []
        for _ in range(8):
            futures.append(pool.submit(ask, at["web"], slow))
            time.sleep(0.03)
        counts = Counter(_told(f.result(), "name") for f in futures)
    if counts != Counter({"least-0": 4, "least-1": 4}):
        yield f"8 requests in flight at once: {dict(counts)}, expected 4 and 4"


def l4_large(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """A megabyte of all byte values comes back unchanged."""
    del endpoints
    sent = bytes(itertools.islice(itertools.cycle(range(256)), 1 << 20))
    with Stream(at["echo"], timeout=10) as stream, ThreadPoolExecutor(1) as pool:

        def send() -> None:
            stream.send(sent)
            stream.shut()

        future = pool.submit(send)
        got = stream.rest()
        future.result()
    if got != sent + b"end of raw-0\n":
        yield f"{len(got)} bytes came back, {len(sent) + 13} expected"


def l4_idle(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """A connection without traffic for the idle time (700 ms) is closed."""
    del endpoints
    with Stream(at["quiet"]) as stream:
        stream.send(b"x")
        if stream.exactly(1) != b"x":
            yield "no echo"
        begun = time.monotonic()
        while stream.fill():
            pass
        took = time.monotonic() - begun
        if stream.end == "open" or not 0.4 <= took <= 2.5:
            yield f"after {took:.1f} s of silence the connection is {stream.end}, expected closed after 0.7 s"


def l4_traffic_keeps(at: Addresses, endpoints: Endpoints) -> Iterator[str]:
    """Traffic within the idle time keeps a connection open."""
    del endpoints
    with Stream(at["quiet"]) as stream:
        for _ in range(4):
            time.sleep(0.35)
            stream.send(b"y")
            if stream.exactly(1) != b"y":
                yield "the connection died although it was used every 350 ms"
                return


SCRIPTS: dict[str, Callable[[Addresses, Endpoints], Iterator[str]]] = {
    f.__name__: f
    for f in (
        pipelined_routes,
        keepalive_routes,
        request_ids_are_unique,
        one_attempt,
        nothing_ejected,
        kept_connection_faults,
        kept_connection_connect_time,
        websocket_outlives_response_time,
        websocket_idle,
        least_connections,
        l4_large,
        l4_idle,
        l4_traffic_keeps,
    )
}
