"""Streams of one HTTP/2 connection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from lbgen.conformance.difference import Difference, Kind
from lbgen.conformance.http2_client import Http2Client, header_list
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field, control, get, require
from lbgen.plan.own_statuses import is_own_status
from lbgen.plan.request import Request

_HANG = control(mode="hang", wait_ms=1500)


@contextmanager
def _client(ctx: ScriptContext) -> Iterator[Http2Client]:
    with ctx.connect(Request(version="2")) as stream:
        yield Http2Client(stream)


def http2_streams(ctx: ScriptContext) -> Iterator[str]:
    """Streams that are open at once get each its own answer."""
    with _client(ctx) as client:
        sent = {}
        for number in range(30):
            body = b"x" * (number * 1000)
            sent[client.send(Request("POST", f"/p/{number}", (("Host", "h"),), body=body))] = (number, len(body))
        for at, (number, length) in sent.items():
            answer = client.read_answer(at)
            account = account_of(answer)
            if account is None or (account["target"], account["body_length"]) != (f"/p/{number}", length):
                yield f"stream {number} of 30: {account_field(answer, 'target')}"


def http2_pause(ctx: ScriptContext) -> None:
    """The time for heads (800 ms) says nothing about a pause between streams."""
    with _client(ctx) as client:
        for number in range(2):
            account = account_field(client.read_answer(client.send(get(f"/{number}"))), "target")
            require(account == f"/{number}", f"stream {number + 1}: {account}")
            time.sleep(1.2)


def http2_expects_continue(ctx: ScriptContext) -> Iterator[str]:
    """A client that sends its body after 100 Continue alone, as Java's HttpClient does."""
    with _client(ctx) as client:
        asked = Request("POST", "/p", (("Host", "h"), ("Expect", "100-continue"), ("Content-Length", "3")))
        number = client.send_head(header_list(asked, client.stream.secure), method="POST", end=False)
        begun = time.monotonic()
        half = client.halves[number]
        while not half.interim and half.status is None and time.monotonic() - begun < 1:
            client.receive(0.2)
        if 100 not in half.interim:
            yield "no 100 Continue within a second"
        client.send_body(number, b"abc")
        if (length := account_field(client.read_answer(number), "body_length")) != "3":
            yield f"the endpoint got {length} bytes"


def http2_stalled_body(ctx: ScriptContext) -> None:
    """A client that stops within a body gets one of `statuses` (or a reset stream) in time."""
    method, statuses, (low, high) = ctx.params.get("method", "PUT"), ctx.params["statuses"], ctx.params["within_ms"]
    with _client(ctx) as client:
        head = header_list(Request(method, ctx.params["path"], (("Host", "h"),)), client.stream.secure)
        number = client.send_head(head, method=method, end=False)
        begun = time.monotonic()  # before the last bytes are sent: the timer of the engine may start here
        client.send_body(number, b"abc", end=False)
        answer = client.read_answer(number)
        took = (time.monotonic() - begun) * 1000
    ended = account_of(answer) is None and (answer.status is not None or answer.after != "open")
    require(ended, f"status {answer.status}, {answer.problem}, expected one of {statuses}")
    known = answer.status is None or any(is_own_status(answer.status, status) for status in statuses)
    require(known, Difference(Kind.STATUS, answer.status, f"one of {statuses}"))
    require(low <= took <= high, f"the stream ended after {took:.0f} ms, expected {low} to {high}")


def http2_slow_stream(ctx: ScriptContext) -> Iterator[str]:
    """A stream whose endpoint is slow holds up no other."""
    with _client(ctx) as client:
        slow = client.send(get("/p/slow", _HANG))
        begun = time.monotonic()
        answer = client.read_answer(client.send(get("/p/quick")))
        took = time.monotonic() - begun
        if account_field(answer, "target") != "/p/quick" or took > 1.2:
            yield f"beside a slow stream: {account_field(answer, 'target')} after {took:.1f} s"
        if account_field(client.read_answer(slow), "target") != "/p/slow":
            yield "the slow stream got no answer"


def http2_reset_stream(ctx: ScriptContext) -> None:
    """A stream that the client resets ends alone."""
    with _client(ctx) as client:
        client.connection.reset_stream(client.send(get("/p/gone", _HANG)), ErrorCodes.CANCEL)
        client.flush()
        target = account_field(client.read_answer(client.send(get("/p/next"))), "target")
    require(target == "/p/next", f"after a reset stream: {target}")


def http2_host_beside_authority(ctx: ScriptContext) -> Iterator[str]:
    """A Host that says what :authority says is one host."""
    for host in (b"h", b"h:81"):
        with _client(ctx) as client:
            head = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", host), (b":path", b"/p")]
            answer = client.read_answer(client.send_head([*head, (b"host", host)]))
            account = account_of(answer)
            hosts = [] if account is None else [v for n, v in account["headers"] if n.lower() == "host"]
            if hosts != [host.decode()]:
                yield f"host {host!r}: status {answer.status}, {hosts} at the endpoint"


def http2_reader_is_slow(ctx: ScriptContext) -> None:
    """A client of HTTP/2 that takes a response bit by bit gets all, though that lasts longer than its own times."""
    size = 240_000
    with _client(ctx) as client:
        client.connection.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 8000})
        number = client.send(get("/", control(mode="fixed", body="x", size=size)))
        answer = client.halves[number]
        while not answer.ended and not answer.problem and client.receive():
            time.sleep(0.05)
    whole = answer.ended and len(answer.body) == size
    require(whole, f"{answer.problem or client.gone or 'no end'} after {len(answer.body)} bytes of {size}")


def grpc_stream(ctx: ScriptContext) -> None:
    """Messages of both sides pass one by one, long before the stream ends, and the trailers come at its end."""
    headers = [["content-type", "application/grpc"]]
    how = control(mode="stream", headers=headers, trailers=[["grpc-status", "0"]])
    fields = (("Host", "shop.example"), ("content-type", "application/grpc"), ("te", "trailers"), how)
    with _client(ctx) as client:
        head = header_list(Request("POST", "/grpc/pkg.Service/Chat", fields), client.stream.secure)
        number = client.send_head(head, method="POST", end=False)
        expected = b""
        for word in (b"one", b"two", b"three"):
            message = bytes(4) + bytes([len(word)]) + word
            expected += message
            client.send_body(number, message, end=False)
            while client.halves[number].body != expected:
                came = client.receive(2.0)
                require(came, f"after {word!r}: {bytes(client.halves[number].body)!r} came back {client.gone}")
        client.connection.end_stream(number)
        client.flush()
        answer = client.read_answer(number)
    require(answer.trailers == (("grpc-status", "0"),), f"trailers {answer.trailers}, {answer.problem}")
