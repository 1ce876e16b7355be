"""What holds of any topology; the requests and times come as parameters."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.probe import Stream, echo, wire
from lbgen.conformance.wires import unverified

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage
    from lbgen.plan.simulate import Request


def tunnel_idle(stage: Stage) -> Iterator[str]:
    """A WebSocket without traffic is closed in time, and not before."""
    request: Request = stage.params["request"]
    asked = replace(request, headers=(*request.headers, *HANDSHAKE))
    with _stream(stage, request) as stream:
        stream.send(wire(asked))
        if (status := stream.answer().status) != 101:
            yield f"status {status}, expected 101"
            return
        if echo(stream, b"hello") != b"hello":
            yield "no echo"
            return
        yield from _ends(stream, stage, "the tunnel", time.monotonic())


def kept_idle(stage: Stage) -> Iterator[str]:
    """A kept client connection without requests is closed in time, and not before."""
    request: Request = stage.params["request"]
    with _stream(stage, request) as stream:
        stream.send(wire(request))
        answer = stream.answer()
        if answer.status is None or answer.after != "open":
            yield f"no kept connection: {answer.problem or answer.after}"
            return
        yield from _ends(stream, stage, "the connection", time.monotonic())


def slow_client(stage: Stage) -> Iterator[str]:
    """Half a request is answered or its connection closed in time, and not before, even if a byte comes now and then
    (`pause` seconds apart; 0 = silence)."""
    pause = stage.params["pause"]
    with _stream(stage, stage.params["request"]) as stream:
        stream.send(stage.params["sent"])
        begun = time.monotonic()
        while pause and time.monotonic() < stream.deadline and not stream.fill(pause) and stream.end == "open":
            stream.send(b"x")
        yield from _ends(stream, stage, "the connection", begun, or_answers=True)


def _stream(stage: Stage, request: Request) -> Stream:
    seconds = stage.params["within_ms"][1] / 1000 + 2
    via = stage.via(request.listener, request, unverified(stage.plan.listener(request.listener)))
    return Stream(stage.at[request.listener], client=request.client, timeout=seconds, wire=via)


def _ends(stream: Stream, stage: Stage, what: str, begun: float, *, or_answers: bool = False) -> Iterator[str]:
    low, high = stage.params["within_ms"]
    while stream.fill() and not or_answers:
        pass
    took = (time.monotonic() - begun) * 1000
    if stream.end == "open" and not stream.buffer:
        yield f"after {took:.0f} ms of silence {what} is still open, expected its end after {low} to {high} ms"
    elif not low <= took <= high:
        yield f"{what} took {took:.0f} ms, expected {low} to {high}"
