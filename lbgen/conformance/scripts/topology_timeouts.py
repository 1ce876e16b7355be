"""Checks of timeouts of any topology; requests and times are parameters."""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec.structs import replace

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.difference import Difference, late
from lbgen.conformance.http1_client import ClientConnection, serialize, websocket_echo
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, own_status
from lbgen.plan.request import Request

LARGE = 4 << 20  # bytes, more than any buffer on the way (small ones, see runtime/local/network.py)
NOTICED = 0.15  # seconds after which a proxy knows that its kept connections have ended
_RESUMES = 1.5  # seconds within which a body goes on, if it does
_STUCK = 0.15  # seconds without progress of an upload


def tunnel_idle(ctx: ScriptContext) -> Iterator[Difference | str]:
    """A WebSocket without traffic is closed in time, and not before."""
    request: Request = ctx.params["request"]
    asked = replace(request, headers=(*request.headers, *HANDSHAKE))
    with ctx.connect(request, timeout=_patience(ctx)) as stream:
        if (status := stream.ask(asked).status) != 101:
            yield f"status {status}, expected 101"
            return
        earliest = time.monotonic()
        if websocket_echo(stream, b"hello") != b"hello":
            yield "no echo"
            return
        yield from ends_in_time(stream, ctx, "the tunnel", earliest)


def idle_connection_ends(ctx: ScriptContext) -> Iterator[Difference | str]:
    """A kept client connection without requests is closed in time, and not before."""
    request: Request = ctx.params["request"]
    with ctx.connect(request, timeout=_patience(ctx)) as stream:
        earliest = time.monotonic()
        answer = stream.ask(request)
        if answer.status is None or answer.after != "open":
            yield f"no kept connection: {answer.problem or answer.after}"
            return
        yield from ends_in_time(stream, ctx, "the connection", earliest)


def slow_client(ctx: ScriptContext) -> Iterator[Difference | str]:
    """Half a request is answered or its connection closed in time, and not before, even if a header comes now and then
    (`pause` seconds apart; 0 = silence)."""
    pause = ctx.params["pause"]
    with ctx.connect(ctx.params["request"], timeout=_patience(ctx)) as stream:
        earliest = time.monotonic()
        stream.send(ctx.params["sent"])
        begun = time.monotonic()
        while pause and time.monotonic() < stream.deadline and not stream.read_more(pause) and stream.end == "open":
            stream.send(b"x: 1\r\n")
        yield from ends_in_time(stream, ctx, "the connection", earliest, begun, or_answers=True)


def _patience(ctx: ScriptContext) -> float:
    return float(ctx.params["within_ms"][1] / 1000 + ctx.params.get("patience", 2))


def ends_in_time(
    stream: ClientConnection,
    ctx: ScriptContext,
    what: str,
    earliest: float,
    begun: float | None = None,
    *,
    or_answers: bool = False,
) -> Iterator[Difference | str]:
    """Check that the engine ends the connection in time. The lower bound counts from `earliest`, taken before the last
    bytes are sent, since the engine's timer may start before this process continues; the upper bound counts from
    `begun` (default: now)."""
    begun = time.monotonic() if begun is None else begun
    low, high = ctx.params["within_ms"]
    low -= (begun - earliest) * 1000
    while not (or_answers and stream.buffer) and stream.read_more():
        pass
    took = (time.monotonic() - begun) * 1000
    if stream.end == "open" and not stream.buffer:
        yield late(
            f"after {took:.0f} ms of silence {what} is still open, expected its end after {low:.0f} to {high} ms"
        )
    elif not low <= took <= high:
        yield late(f"{what} took {took:.0f} ms, expected {low:.0f} to {high}")


def stuck_upload(ctx: ScriptContext) -> Iterator[Difference | str]:
    """An endpoint that stops reading a body is given up in time."""
    request: Request = ctx.params["request"]
    size = ctx.params.get("size", LARGE)
    head = replace(request, method="POST", headers=(*request.headers, ("Content-Length", str(size))))
    chunk = b"x" * 65_536
    with ctx.connect(request, timeout=_patience(ctx)) as stream:
        stream.send(serialize(head))
        first = last = time.monotonic()  # the endpoint takes nothing from the first on, a proxy what it has room for
        stuck = False
        stream.sock.settimeout(0.02)
        while time.monotonic() < stream.deadline and stream.end == "open" and not stream.buffer:
            try:
                stream.sock.send(chunk)
                last = last if stuck else time.monotonic()
            except TimeoutError:
                stuck = stuck or time.monotonic() - last > _STUCK  # what is taken later is on its way to the end
            except OSError:
                stream.end = "reset"
            stream.read_more(0.002)
            stream.sock.settimeout(0.02)
        yield from ends_in_time(stream, ctx, "the upload", first, last, or_answers=True)


def deaf_client(ctx: ScriptContext) -> Iterator[Difference | str]:
    """A client that stops reading is given up in time: it gets the whole body if it goes on before (`early_ms`, where
    that is asked), and not if it comes back after that."""
    _, high = ctx.params["within_ms"]
    early = ctx.params.get("early_ms")
    for pause, whole in (*([] if early is None else [(early, True)]), (high, False)):
        found = list(slow_reader(ctx, pause, whole=whole))
        yield from found
        if found:
            return


def slow_reader(ctx: ScriptContext, pause: float, *, whole: bool) -> Iterator[Difference | str]:
    """Whether a client that reads nothing for `pause` milliseconds gets the whole body nevertheless."""
    request: Request = ctx.params["request"]
    size = ctx.params.get("size", LARGE)
    with ctx.connect(request, timeout=_patience(ctx)) as stream:
        stream.send(serialize(request))
        if stream.read_until(b"\r\n\r\n") is None:
            yield f"no answer ({stream.end})"
            return
        time.sleep(pause / 1000)
        stream.deadline = time.monotonic() + 5
        while len(stream.buffer) < size and stream.read_more(_RESUMES if not whole else None):
            pass
        got = len(stream.buffer)
    if whole != (got >= size):
        want = "all" if whole else "less"
        yield late(f"the client took {pause:.0f} ms off and got {got} bytes of {size}, expected {want}")
    elif not whole and stream.end == "open":
        yield late(
            f"the client took {pause:.0f} ms off and got {got} bytes of {size}, and its connection is still open"
        )


def split_fails(ctx: ScriptContext) -> Iterator[Difference | str]:
    """While the endpoints of one pool of a split fail, requests that are drawn for it get a 504, in time; the others do
    not notice. `most` requests are enough to meet the pool."""
    request: Request = ctx.params["request"]
    pool = ctx.params["pool"]
    low, high = ctx.params["within_ms"]
    found: list[float] = []
    for _ in range(ctx.params["most"]):
        answer = ctx.ask(request, timeout=high / 1000 + 2)
        if account_of(answer) is not None:
            continue
        if own_status(answer, 504) != 504:
            yield f"status {answer.status} {answer.problem} when {pool} fails, expected 504"
            return
        found.append(answer.elapsed * 1000)
        if low <= found[-1] <= high:
            return
        if len(found) == 4:
            break
    if found:
        yield late(f"took {min(found):.0f} ms at least when {pool} fails, expected {low} to {high}")
    else:
        yield f"none of {ctx.params['most']} requests went to {pool}"
