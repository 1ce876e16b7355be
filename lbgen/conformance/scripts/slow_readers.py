"""Clients and endpoints that stop reading."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from h2.settings import SettingCodes

from lbgen.conformance.http1_client import ClientConnection, serialize
from lbgen.conformance.http2_client import Http2Client
from lbgen.conformance.scripts.context import ScriptContext, get
from lbgen.conformance.scripts.topology_timeouts import deaf_client, slow_reader, stuck_upload
from lbgen.plan.request import Request
from lbgen.records import replace
from lbgen.runtime.standins.http1 import CONTROL

if TYPE_CHECKING:
    from lbgen.conformance.difference import Difference

_SIZE = 24 << 20  # bytes, more than the buffers of this host's kernel hold


def client_stops_reading(ctx: ScriptContext) -> Iterator[Difference | str]:
    """A client that reads nothing for the idle time (`idle_ms`) is given up; one that goes on before is not."""
    idle = ctx.params["idle_ms"]
    yield from deaf_client(_asking(ctx, "/short", within_ms=(0, idle + 1300), early_ms=idle * 0.36))


def client_pauses(ctx: ScriptContext) -> Iterator[Difference | str]:
    """A client that reads nothing for less than the idle time (5 s) gets all, whatever the time of its own body."""
    yield from slow_reader(_asking(ctx, "/", within_ms=(0, 5000)), 1500, whole=True)


def closing_client_pauses(ctx: ScriptContext) -> Iterator[str]:
    """A client after whose request the connection ends gets all too, though it takes nothing for 0.8 s. Of some size
    the last bytes are then in the proxy, those before in the kernel."""
    sizes = [count << 19 for count in range(1, 17)]
    with ExitStack() as stack:
        streams = []
        for size in sizes:
            control = (CONTROL, json.dumps({"mode": "fixed", "body": "x", "size": size}))
            request = get("/", control, ("Connection", "close"))
            stream = stack.enter_context(ClientConnection(ctx.at["web"], timeout=15))
            stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            stream.send(serialize(request))
            streams.append(stream)
        time.sleep(0.8)
        for size, stream in zip(sizes, streams, strict=True):
            stream.read_until(b"\r\n\r\n")
            while len(stream.buffer) < size and stream.read_more():
                pass
            if len(stream.buffer) < size:
                yield f"the client took 800 ms off and got {len(stream.buffer)} bytes of {size}"


def http2_reader_is_slow(ctx: ScriptContext) -> Iterator[str]:
    """A client of HTTP/2 that takes a response bit by bit gets all, though that lasts longer than its own times."""
    size, name = 240_000, ctx.params["listener"]
    with ClientConnection(ctx.at[name], transport=ctx.transport(name, Request(version="2"))) as stream:
        client = Http2Client(stream)
        client.connection.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 8000})
        control = (CONTROL, json.dumps({"mode": "fixed", "body": "x", "size": size}))
        number = client.send(get("/", control))
        answer = client.halves[number]
        while not answer.ended and not answer.problem and client.receive():
            time.sleep(0.05)
    if not answer.ended or len(answer.body) != size:
        yield f"{answer.problem or client.gone or 'no end'} after {len(answer.body)} bytes of {size}"


def endpoint_stops_reading(ctx: ScriptContext) -> Iterator[Difference | str]:
    """An upload that its endpoint reads nothing of is given up after the idle time and that of clients (700 ms)."""
    control = (CONTROL, json.dumps({"mode": "deaf"}))
    request = replace(get(ctx.params["target"], control), listener=ctx.params["listener"])
    params = {"request": request, "size": _SIZE, "within_ms": (300, 2000), "patience": 8}
    yield from stuck_upload(replace(ctx, params=params))


def _asking(ctx: ScriptContext, target: str, **params: object) -> ScriptContext:
    control = (CONTROL, json.dumps({"mode": "fixed", "body": "x", "size": _SIZE}))
    request = replace(get(target, control), listener=ctx.params.get("listener", "web"))
    return replace(ctx, params={"request": request, "size": _SIZE, **params})
