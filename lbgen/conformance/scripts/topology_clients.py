"""What everyday clients do, on any route: gRPC calls, streams of events, uploads, requests on a kept connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

from msgspec.structs import replace

from lbgen.agent import metric_names
from lbgen.conformance import judge
from lbgen.conformance.case import Case, Expect
from lbgen.conformance.difference import Difference, late
from lbgen.conformance.http1_client import Answer, serialize
from lbgen.conformance.http2_client import Http2Client, header_list
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, wait_until, who_answers, with_control
from lbgen.plan.model import Mode
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate

_MESSAGE = b"\x00\x00\x00\x00\x05hello"
_GRPC = (("content-type", "application/grpc"), ("te", "trailers"), ("grpc-accept-encoding", "identity, deflate, gzip"))
_EVENTS = 4
_PIECE = 16_384
_LONG_ANSWER = 250_000  # bytes, more than sockets hold while the client reads nothing
_SMALL_WINDOW = 4_096
_COUNTED = 8.0  # seconds within which a request is in the metrics


def grpc_calls(ctx: ScriptContext) -> Iterator[str]:
    """Calls as grpc libraries make them: one that succeeds, one that fails with a message, one that fails at once."""
    for status, message in (("0", True), ("5", True), ("5", False)):
        trailers = [["grpc-status", status], ["grpc-message", "x"]]
        head: dict[str, object] = {"mode": "stream", "headers": [["content-type", "application/grpc"]]}
        answer, te, lines = _call(ctx, {**head, "trailers": trailers}, _MESSAGE if message else b"")
        what = f"a call that ends with grpc-status {status}"
        if answer.status != 200 or dict(answer.trailers).get("grpc-status") != status:
            yield f"{what}: status {answer.status}, trailers {answer.trailers}, {answer.problem}"
        elif answer.body != (_MESSAGE if message else b""):
            yield f"{what}: {answer.body[:60]!r} came back"
        if te != ["trailers"]:
            yield f"{what}: te {te} at the endpoint, expected trailers"
        if "host" in lines:
            yield f"{what}: the endpoint got a field host beside :authority"


def _call(ctx: ScriptContext, how: dict[str, object], body: bytes) -> tuple[Answer, list[str], set[str]]:
    """The answer to a call, and the values of `te` and the names of all fields that arrived at the endpoint."""
    request: Request = replace(ctx.params["request"], method="POST", version="2")
    tag = f"call-{time.monotonic_ns()}"
    request = with_control(replace(request, headers=(*request.headers, *_GRPC)), **how, tag=tag)
    with ctx.connect(request) as stream:
        client = Http2Client(stream)
        number = client.send_head(header_list(request, stream.secure), method="POST", end=False)
        client.send_body(number, body)
        answer = client.read_answer(number)
    arrived = ctx.endpoints.tagged(tag)
    headers = arrived[0].headers if arrived else ()
    return answer, [v for n, v in headers if n.lower() == "te"], {n.lower() for n, _ in headers}


def events_arrive(ctx: ScriptContext) -> Iterator[Difference | str]:
    """Events of a stream (`pause_ms` apart) arrive as the endpoint sends them, long before it ends."""
    request: Request = ctx.params["request"]
    stream_of_events = {
        "mode": "drip",
        "wait_ms": ctx.params["pause_ms"],
        "count": _EVENTS,
        "headers": [["content-type", "text/event-stream"], ["cache-control", "no-cache"]],
    }
    asked = (("Accept", "text/event-stream"), ("Accept-Encoding", "gzip, deflate, br"))
    request = with_control(replace(request, headers=(*request.headers, *asked)), **stream_of_events)
    with ctx.connect(request) as stream:
        begun = time.monotonic()
        stream.send(serialize(request))
        first = None
        while not stream.buffer.endswith(b"\r\n0\r\n\r\n") and stream.read_more(2.0):
            if first is None and stream.buffer.partition(b"\r\n\r\n")[2]:
                first = time.monotonic() - begun
        took = time.monotonic() - begun
        end, got = stream.end, bytes(stream.buffer)
    if first is None or not got.endswith(b"\r\n0\r\n\r\n"):
        yield late(f"the stream is {end} after {took:.2f} s, no end came: {got[-80:]!r}")
    elif first > took - ctx.params["pause_ms"] * (_EVENTS - 2) / 1000:
        yield late(f"the first event came after {first:.2f} s, the end of the stream after {took:.2f} s")


def upload_passes(ctx: ScriptContext) -> Iterator[str]:
    """An upload without a length arrives whole, and as it is sent unless the route reads it whole first (`buffered`).
    `size`: bytes."""
    request: Request = replace(ctx.params["request"], method="POST")
    size, names = ctx.params["size"], ctx.params["names"]
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    chunked = replace(request, headers=(*request.headers, ("Transfer-Encoding", "chunked")))
    with ctx.connect(request) as stream:
        before = _body_bytes(ctx, names)
        stream.send(serialize(chunked).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        half = size // 2
        stream.send(b"%x\r\n%b\r\n" % (half, body[:half]))
        early = wait_until(lambda: _body_bytes(ctx, names) > before, 1.0 if not ctx.params["buffered"] else 0.4)
        for at in range(half, size, _PIECE):
            piece = body[at : at + _PIECE]
            stream.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        stream.send(b"0\r\n\r\n")
        answer = stream.read_answer()
    account = account_of(answer)
    if account is None or account["body_length"] != size:
        yield f"an upload of {size} bytes: status {answer.status} {answer.problem}, " + (
            "no endpoint answered" if account is None else f"{account['body_length']} bytes arrived"
        )
    elif early == ctx.params["buffered"] and ctx.params["tells"]:
        when = "arrived before its end" if early else "did not arrive before its end"
        yield f"the first half of an upload {when}, expected {'not so' if early else 'at once'}"


def _body_bytes(ctx: ScriptContext, names: list[str]) -> int:
    return sum(ctx.endpoints.body_bytes[name] for name in names)


def answer_is_taken(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint of `names` is done with a long answer although the client reads nothing of it."""
    request = with_control(ctx.params["request"], mode="fixed", body="0123456789", size=_LONG_ANSWER)
    names = ctx.params["names"]

    def answered() -> int:
        return sum(ctx.endpoints.answered[name] for name in names)

    before = answered()
    with ctx.connect(request) as stream:
        stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_WINDOW)
        stream.send(serialize(request))
        if not wait_until(lambda: answered() > before, 3):
            yield f"the client reads nothing, and the endpoint still sends {_LONG_ANSWER} bytes after 3 s"


def requests_are_counted(ctx: ScriptContext) -> Iterator[str]:
    """Requests, at layer 4 connections, are in the metrics within seconds: of their listener and `route`."""
    request, route, count, before = ctx.params["request"], ctx.params["route"], 3, -1
    while before != (before := _counted(ctx, request.listener, route)):  # earlier requests may be counted late
        time.sleep(_COUNTED / 8)
    for _ in range(count):
        who_answers(ctx, request)
    if not wait_until(lambda: _counted(ctx, request.listener, route) - before == count, _COUNTED):
        found = _counted(ctx, request.listener, route) - before
        yield f"{count} requests of route {route} on {request.listener}: the metrics count {found}"


def _counted(ctx: ScriptContext, listener: str, route: str) -> int:
    """What the metrics say came to the listener, of L7 listeners for that route."""
    text, l4 = ctx.metrics(), ctx.plan.listener(listener).mode is Mode.L4
    family = metric_names.L4_CONNECTIONS if l4 else metric_names.REQUESTS
    labels = [f'listener="{listener}"', *([] if l4 else [f'route="{route}"'])]
    lines = [line for line in text.splitlines() if line.startswith(f"{family.name}{{")]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if all(label in line for label in labels))


def kept_connection_serves(ctx: ScriptContext) -> Iterator[Difference | str]:
    """Requests of several routes on one connection, as browsers and pools of connections send them: each is routed and
    edited by itself."""
    requests: list[Request] = ctx.params["requests"]
    first = requests[0]
    with ctx.connect(first) as stream:
        for number, request in enumerate((*requests, *reversed(requests)), 1):
            request = replace(request, client=first.client)  # whoever the case of its route would come from
            answer = stream.ask(request)
            outcome = simulate(ctx.plan, request)
            found = list(judge.differences(Case("", "", request, Expect()), outcome, answer, ctx.own))
            if found:
                yield from found
            if outcome.status is None and account_of(answer) is None:
                yield f"request {number} on one connection, {request.method} {request.target}: no endpoint answered"
            if stream.end != "open" or answer.after != "open":
                yield f"the connection is {answer.after} after request {number}"
                return
