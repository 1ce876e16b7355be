"""WebSocket tunnels and the timeouts that end them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.http1_client import ClientConnection, websocket_echo
from lbgen.conformance.scripts.context import ScriptContext, get
from lbgen.runtime.standins.http1 import CONTROL


def _tunnel(ctx: ScriptContext) -> ClientConnection:
    listener = ctx.params.get("listener", "web")
    return ClientConnection(ctx.at[listener], transport=ctx.transport(listener))


def websocket_outlives_response_time(ctx: ScriptContext) -> Iterator[str]:
    """A quiet tunnel lives longer than the response time (500 ms) if the idle time (3 s) allows it (`pause`: seconds of
    silence)."""
    pause = ctx.params.get("pause", 1.2)
    with _tunnel(ctx) as stream:
        if (status := stream.ask(get("/long", *HANDSHAKE)).status) != 101:
            yield f"status {status}, expected 101"
            return
        for number in range(2):
            time.sleep(pause)
            if websocket_echo(stream, b"hello") != b"hello":
                yield f"the tunnel died within {pause * (number + 1):.1f} s of silence"
                return


def websocket_idle(ctx: ScriptContext) -> Iterator[str]:
    """A tunnel without traffic for the idle time (700 ms) is closed; traffic keeps it open."""
    with _tunnel(ctx) as stream:
        if (status := stream.ask(get("/short", *HANDSHAKE)).status) != 101:
            yield f"status {status}, expected 101"
            return
        for _ in range(4):
            time.sleep(0.35)
            if websocket_echo(stream, b"hello") != b"hello":
                yield "the tunnel died although it was used every 350 ms"
                return
        begun = time.monotonic()
        while stream.read_more():
            pass
        took = time.monotonic() - begun
        if stream.end == "open" or not 0.4 <= took <= 2.5:
            yield f"after {took:.1f} s of silence the tunnel is {stream.end}, expected closed after 0.7 s"


def websocket_declined(ctx: ScriptContext) -> Iterator[str]:
    """A handshake that the endpoint declines leaves the client's connection usable unless the response says close."""
    status = ctx.params["status"]
    declines = json.dumps({"mode": "fixed", "status": status, "headers": ctx.params["headers"], "body": "no\n"})
    with _tunnel(ctx) as stream:
        first = stream.ask(get("/chat", *HANDSHAKE, (CONTROL, declines)))
        if first.status != status:
            yield f"status {first.status}, expected {status}"
        elif first.header("connection") != "close" and (found := stream.ask(get("/chat")).status) != 200:
            yield f"the request after a {status}: status {found}, expected 200"
