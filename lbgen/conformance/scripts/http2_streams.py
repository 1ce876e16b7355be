"""Many streams of one HTTP/2 connection, and frames that no client may send."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

from h2.errors import ErrorCodes

from lbgen.conformance.http1_client import ClientConnection, filler
from lbgen.conformance.http2_client import Http2Client, Pairs, header_list, raw_frame
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field, get
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


def http2_unsized_retry(ctx: ScriptContext) -> Iterator[str]:
    """A body without a length is sent again up to 16 KiB, and never beyond."""
    for size, status, tries in ((0, 200, 2), (16_384, 200, 2), (16_385, 503, 1), (200_000, 503, 1)):
        tag = uuid4().hex
        steps = f'{{"tag": "{tag}", "steps": [{{"mode": "fixed", "status": 503, "body": "own"}}, {{"mode": "json"}}]}}'
        with _open(ctx) as stream:
            client = Http2Client(stream)
            head = header_list(Request("PUT", ctx.params["path"], (("Host", "h"), (CONTROL, steps))), stream.secure)
            number = client.send_head(head, method="PUT", end=False)
            client.send_body(number, filler(size))
            answer = client.read_answer(number)
        asked = len(ctx.endpoints.tagged(tag))
        if (answer.status, asked) != (status, tries):
            yield f"{size} bytes: {answer.problem or answer.status}, {asked} tries, expected {status}, {tries} tries"


def http2_pause(ctx: ScriptContext) -> Iterator[str]:
    """The time for heads (800 ms) says nothing about a pause between streams."""
    with _open(ctx) as stream:
        client = Http2Client(stream)
        for number in range(2):
            if (account := account_field(client.read_answer(client.send(get(f"/{number}"))), "target")) != f"/{number}":
                yield f"stream {number + 1}: {account}"
                return
            time.sleep(1.2)


def http2_stalled_body(ctx: ScriptContext) -> Iterator[str]:
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
    elif answer.status is not None and answer.status not in ctx.params["statuses"]:
        yield f"status {answer.status}, expected one of {ctx.params['statuses']}"
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


def http2_request_trailers(ctx: ScriptContext) -> Iterator[str]:
    """A request with trailers is answered, and so is another stream of its connection."""
    with _open(ctx) as stream:
        client = Http2Client(stream)
        sent = {"/p/other": client.send(get("/p/other", _HANG))}
        head = header_list(Request("POST", "/p/trailers", (("Host", "h"),)), stream.secure)
        number = sent["/p/trailers"] = client.send_head(head, method="POST", end=False)
        client.send_body(number, b"abc", end=False)
        client.connection.send_headers(number, [(b"x-checksum", b"1")], end_stream=True)
        client.flush()
        for path, at in sent.items():
            if (found := account_field(client.read_answer(at), "target")) != path:
                yield f"{path}: {found}"


_GET = bytes.fromhex("828684") + b"\x41\x01h"  # :method GET, :scheme http, :path /, :authority h


_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 8, 9
_END_STREAM, _END_HEADERS = 1, 4
_BROKEN = {
    "data on stream 0": raw_frame(_DATA, 0, 0, b"x"),
    "data on an idle stream": raw_frame(_DATA, _END_STREAM, 5, b"x"),
    "head on an even stream": raw_frame(_HEADERS, _END_STREAM | _END_HEADERS, 2, _GET),
    "reset of an idle stream": raw_frame(_RST_STREAM, 0, 7, (8).to_bytes(4)),
    "a window that grows by nothing": raw_frame(_WINDOW_UPDATE, 0, 0, bytes(4)),
    "a ping of the wrong size": raw_frame(_PING, 0, 0, b"1234"),
    "settings on a stream": raw_frame(_SETTINGS, 0, 1, b""),
    "broken header compression": raw_frame(_HEADERS, _END_STREAM | _END_HEADERS, 1, b"\xff" * 6),
    "a frame above the limit": raw_frame(_DATA, 0, 1, bytes(65537)),
    "continuation out of place": raw_frame(_CONTINUATION, _END_HEADERS, 1, b"\x82"),
}
_HEAD = ((b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/p"))


def _head(without: bytes, *added: tuple[bytes, bytes]) -> Pairs:
    """A plain head without one of its pseudo-headers, and with what is added."""
    return [*(pair for pair in _HEAD if pair[0] != without), *added]


_HEADS = {
    "no path": _head(b":path"),
    "empty path": _head(b":path", (b":path", b"")),
    "no method": _head(b":method"),
    "two paths": _head(b"", (b":path", b"/p/2")),
    "unknown pseudo-header": _head(b"", (b":odd", b"1")),
    "pseudo-header behind others": _head(b":path", (b"x-a", b"1"), (b":path", b"/p")),
    "upper-case name": _head(b"", (b"X-Upper", b"1")),
    "line break in a value": _head(b"", (b"x-a", b"1\r\nX-Smuggled: 1")),
    "line break in the path": _head(b":path", (b":path", b"/p HTTP/1.1\r\nHost: x\r\n\r\nGET /smuggled")),
    "line break in the method": _head(b":method", (b":method", b"GET / HTTP/1.1\r\nX: 1")),
    "line break in the host": _head(b":authority", (b":authority", b"h\r\nX-Smuggled: 1")),
    "NUL in a value": _head(b"", (b"x-a", b"1\x002")),
    "blank in a name": _head(b"", (b"x a", b"1")),
    "a length that the body has not": _head(b"", (b"content-length", b"5")),
    "two hosts": _head(b"", (b"host", b"other.example")),
}


def http2_broken_frames(ctx: ScriptContext) -> Iterator[str]:
    """What RFC 9113 forbids ends the stream or the connection (or is a 400), and no endpoint hears of it."""
    before = -1
    while before != (before := sum(ctx.endpoints.heads.values())):  # what cases before this one sent has arrived
        time.sleep(0.5)
    for what, frame in _BROKEN.items():
        with _open(ctx) as stream:
            stream.send(_PREFACE + raw_frame(_SETTINGS, 0, 0, b"") + frame)
            client = _listen(stream)
            if not client:
                yield f"{what}: the connection stays open without GOAWAY or RST_STREAM"
    for what, head in _HEADS.items():
        with _open(ctx) as stream:
            http2 = Http2Client(stream)
            answer = http2.read_answer(http2.send_head(list(head)))
            if account_of(answer) is not None:
                yield f"{what}: reached an endpoint"
            elif answer.status not in (None, 400) or (answer.status is None and answer.after == "open"):
                yield f"{what}: status {answer.status}, {answer.problem}, expected 400 or a reset"
    time.sleep(0.1)
    if (more := sum(ctx.endpoints.heads.values()) - before) > 0:
        yield f"{more} of these requests reached an endpoint"


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


def _listen(stream: ClientConnection, seconds: float = 3.0) -> bool:
    """Whether the server ends the connection, or says GOAWAY or RST_STREAM."""
    deadline = time.monotonic() + seconds
    seen = bytearray()
    while time.monotonic() < deadline:
        if not stream.read_more(deadline - time.monotonic()):
            return stream.end != "open"
        seen += stream.take(len(stream.buffer))
        at = 0
        while at + 9 <= len(seen):
            if seen[at + 3] in (3, 7):
                return True
            at += 9 + int.from_bytes(seen[at : at + 3])
    return False
