"""Many streams of one HTTP/2 connection, and frames that no client may send."""

from __future__ import annotations

import time
from collections.abc import Iterator

from h2.errors import ErrorCodes

from lbgen.conformance.difference import Difference, Kind
from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.http2_client import Http2Client, header_list
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field, get
from lbgen.plan.own_statuses import is_own_status
from lbgen.plan.request import Request
from lbgen.runtime.standins.http1 import CONTROL

_ANY2 = Request(version="2")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HANG = (CONTROL, '{"mode": "hang", "wait_ms": 1500}')


def _open(ctx: ScriptContext) -> ClientConnection:
    name = ctx.params["listener"]
    return ClientConnection(ctx.at[name], transport=ctx.transport(name, _ANY2))


def http2_streams(ctx: ScriptContext) -> Iterator[str]:
    """Streams that are open at once get each its own answer."""
    with _open(ctx) as stream:
        client = Http2Client(stream)
        sent = {}
        for number in range(30):
            body = b"x" * (number * 1000)
            sent[client.send(Request("POST", f"/p/{number}", (("Host", "h"),), body=body))] = (number, len(body))
        for at, (number, length) in sent.items():
            answer = client.read_answer(at)
            account = account_of(answer)
            if account is None or (account["target"], account["body_length"]) != (f"/p/{number}", length):
                yield f"stream {number} of 30: {account_field(answer, 'target')}"


def http2_pause(ctx: ScriptContext) -> Iterator[str]:
    """The time for heads (800 ms) says nothing about a pause between streams."""
    with _open(ctx) as stream:
        client = Http2Client(stream)
        for number in range(2):
            if (account := account_field(client.read_answer(client.send(get(f"/{number}"))), "target")) != f"/{number}":
                yield f"stream {number + 1}: {account}"
                return
            time.sleep(1.2)


def http2_expects_continue(ctx: ScriptContext) -> Iterator[str]:
    """A client that sends its body after 100 Continue alone, as Java's HttpClient does."""
    with _open(ctx) as stream:
        client = Http2Client(stream)
        asked = Request("POST", "/p", (("Host", "h"), ("Expect", "100-continue"), ("Content-Length", "3")))
        number = client.send_head(header_list(asked, stream.secure), method="POST", end=False)
        begun = time.monotonic()
        half = client.halves[number]
        while not half.interim and half.status is None and time.monotonic() - begun < 1:
            client.receive(0.2)
        if 100 not in half.interim:
            yield "no 100 Continue within a second"
        client.send_body(number, b"abc")
        if (length := account_field(client.read_answer(number), "body_length")) != "3":
            yield f"the endpoint got {length} bytes"


def http2_stalled_body(ctx: ScriptContext) -> Iterator[Difference | str]:
    """A client that stops within a body gets one of `statuses` (or a reset stream) in time."""
    method = ctx.params.get("method", "PUT")
    low, high = ctx.params["within_ms"]
    with _open(ctx) as stream:
        client = Http2Client(stream)
        head = header_list(Request(method, ctx.params["path"], (("Host", "h"),)), stream.secure)
        number = client.send_head(head, method=method, end=False)
        begun = time.monotonic()  # before the last bytes are sent: the timer of the engine may start here
        client.send_body(number, b"abc", end=False)
        answer = client.read_answer(number)
        took = (time.monotonic() - begun) * 1000
    if account_of(answer) is not None or (answer.status is None and answer.after == "open"):
        yield f"status {answer.status}, {answer.problem}, expected one of {ctx.params['statuses']}"
    elif answer.status and not any(is_own_status(answer.status, status) for status in ctx.params["statuses"]):
        yield Difference(Kind.STATUS, answer.status, f"one of {ctx.params['statuses']}")
    elif not low <= took <= high:
        yield f"the stream ended after {took:.0f} ms, expected {low} to {high}"


def http2_slow_stream(ctx: ScriptContext) -> Iterator[str]:
    """A stream whose endpoint is slow holds up no other."""
    with _open(ctx) as stream:
        client = Http2Client(stream)
        slow = client.send(get("/p/slow", _HANG))
        begun = time.monotonic()
        answer = client.read_answer(client.send(get("/p/quick")))
        took = time.monotonic() - begun
        if account_field(answer, "target") != "/p/quick" or took > 1.2:
            yield f"beside a slow stream: {account_field(answer, 'target')} after {took:.1f} s"
        if account_field(client.read_answer(slow), "target") != "/p/slow":
            yield "the slow stream got no answer"


def http2_reset_stream(ctx: ScriptContext) -> Iterator[str]:
    """A stream that the client resets ends alone."""
    with _open(ctx) as stream:
        client = Http2Client(stream)
        gone = client.send(get("/p/gone", _HANG))
        client.connection.reset_stream(gone, ErrorCodes.CANCEL)
        client.flush()
        answer = client.read_answer(client.send(get("/p/next")))
        if account_field(answer, "target") != "/p/next":
            yield f"after a reset stream: {account_field(answer, 'target')}"


_GET = bytes.fromhex("828684") + b"\x41\x01h"  # :method GET, :scheme http, :path /, :authority h


_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 8, 9
_END_STREAM, _END_HEADERS = 1, 4
_HEAD = ((b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/p"))


def http2_host_beside_authority(ctx: ScriptContext) -> Iterator[str]:
    """A Host that says what :authority says is one host."""
    for host in (b"h", b"h:81"):
        with _open(ctx) as stream:
            client = Http2Client(stream)
            answer = client.read_answer(
                client.send_head([*_HEAD[:2], (b":authority", host), _HEAD[3], (b"host", host)])
            )
            account = account_of(answer)
            hosts = [] if account is None else [v for n, v in account["headers"] if n.lower() == "host"]
            if hosts != [host.decode()]:
                yield f"host {host!r}: status {answer.status}, {hosts} at the endpoint"
