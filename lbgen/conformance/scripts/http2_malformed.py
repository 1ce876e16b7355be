"""Floods of HTTP/2 frames, and bodies that are not as long as they say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.http2_client import Http2Client, fetch, raw_frame
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field, get
from lbgen.plan.request import Request

_ANY2 = Request(version="2")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_GET = bytes.fromhex("828684") + b"\x41\x01h"  # :method GET, :scheme http, :path /, :authority h


def _open(ctx: ScriptContext, seconds: float = 8.0) -> ClientConnection:
    name = ctx.params["listener"]
    return ClientConnection(ctx.at[name], transport=ctx.transport(name, _ANY2), timeout=seconds)


def _still_serves(ctx: ScriptContext) -> Iterator[str]:
    name = ctx.params["listener"]
    for request in (get("/good"), Request("GET", "/good", (("Host", "h"),), version="2")):
        answer = fetch(ctx.at[name], request, timeout=4, transport=ctx.transport(name, request))
        if account_field(answer, "target") != "/good":
            yield f"afterwards, over HTTP/{request.version}: {account_field(answer, 'target')}"


def http2_rapid_reset(ctx: ScriptContext) -> Iterator[str]:
    """2,000 streams that are reset at once harm no other client."""
    with _open(ctx) as stream:
        stream.send(_PREFACE + _SETTINGS)
        for first in range(1, 4001, 200):
            part = b""
            for number in range(first, first + 200, 2):
                part += raw_frame(1, 5, number, _GET) + raw_frame(3, 0, number, (8).to_bytes(4))
            stream.send(part)
        yield from _still_serves(ctx)


def http2_endless_head(ctx: ScriptContext) -> Iterator[str]:
    """A head of endless CONTINUATION frames is ended by the proxy."""
    with _open(ctx) as stream:
        stream.send(_PREFACE + _SETTINGS + raw_frame(1, 1, 1, _GET))
        block = b"\x00\x03x-a\x7f\x81\x07" + b"a" * 256  # a literal without index, 256 bytes of value
        deadline = time.monotonic() + 6
        while stream.end == "open" and time.monotonic() < deadline:
            stream.send(raw_frame(9, 0, 1, block * 20))
            stream.read_more(0.002)
            if b"\x07\x00" in stream.buffer[3:]:  # the type of GOAWAY and its flags
                break
        else:
            if stream.end == "open":
                yield "6 s of CONTINUATION frames and the connection is open"
    yield from _still_serves(ctx)


def http2_wrong_lengths(ctx: ScriptContext) -> Iterator[str]:
    """A body that is longer or shorter than content-length says reaches no endpoint as a whole request."""
    for length, body in ((b"3", b"abcdef"), (b"9", b"abc"), (b"0", b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")):
        path = f"/length-{uuid4().hex[:8]}"
        with _open(ctx) as stream:
            client = Http2Client(stream)
            head = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b":authority", b"h")]
            number = client.send_head([*head, (b"content-length", length)], method="POST", end=False)
            client.connection.send_data(number, body, end_stream=True)
            client.flush()
            answer = client.read_answer(number)
        account = account_of(answer)
        # A head that says 0 is a whole request already; what follows must vanish.
        if account is not None and (length != b"0" or account["body_length"]):
            yield f"content-length {length!r} with {len(body)} bytes: reached an endpoint"
        elif account is None and answer.status not in (None, 400, 502):
            yield f"content-length {length!r} with {len(body)} bytes: status {answer.status} {answer.problem}"
        elif answer.status is None and answer.after == "open":
            yield f"content-length {length!r} with {len(body)} bytes: no answer {answer.problem}"
        time.sleep(0.1)
        wrong = ("/x",) if length == b"0" else (path,)
        reached = [one.target for one in tuple(ctx.endpoints.seen) if one.target in wrong]
        if reached:
            yield f"content-length {length!r} with {len(body)} bytes: endpoints got {reached}"
    yield from _still_serves(ctx)
