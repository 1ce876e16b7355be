"""Bytes over layer 4."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.transport import client_hello

if TYPE_CHECKING:
    from lbgen.conformance.scripts.context import ScriptContext

_POSTGRES_SSL_REQUEST = bytes.fromhex("0000000804d2162f")


def l4_large(ctx: ScriptContext) -> Iterator[str]:
    """A megabyte of all byte values comes back unchanged."""
    sent = bytes(itertools.islice(itertools.cycle(range(256)), 1 << 20))
    with ClientConnection(ctx.at["echo"], timeout=10) as stream, ThreadPoolExecutor(1) as pool:

        def send() -> None:
            stream.send(sent)
            stream.shutdown_write()

        future = pool.submit(send)
        got = stream.read_to_end()
        future.result()
    if got != sent + b"end of raw-0\n":
        yield f"{len(got)} bytes came back, {len(sent) + 13} expected"


def l4_greeting(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint that speaks first is heard by a client that says nothing, as with MySQL, SMTP and SSH."""
    with ClientConnection(ctx.at["greets"]) as stream:
        got = stream.read_exactly(6)
        if got != b"ready\n":
            yield f"{got!r} came before the client sent anything, expected the endpoint's greeting"


def l4_handshakes(ctx: ScriptContext) -> Iterator[str]:
    """Handshakes pass as any bytes do: the first message of TLS, and PostgreSQL's question for TLS."""
    for sent in (client_hello("a.test"), _POSTGRES_SSL_REQUEST):
        with ClientConnection(ctx.at["echo"]) as stream:
            stream.send(sent)
            got = stream.read_exactly(len(sent))
            if got != sent:
                yield f"{got!r} came back for {sent!r}"


def l4_idle(ctx: ScriptContext) -> Iterator[str]:
    """A connection without traffic for the idle time (700 ms) is closed."""
    with ClientConnection(ctx.at["quiet"]) as stream:
        stream.send(b"x")
        if stream.read_exactly(1) != b"x":
            yield "no echo"
        begun = time.monotonic()
        while stream.read_more():
            pass
        took = time.monotonic() - begun
        if stream.end == "open" or not 0.4 <= took <= 2.5:
            yield f"after {took:.1f} s of silence the connection is {stream.end}, expected closed after 0.7 s"


def l4_traffic_keeps(ctx: ScriptContext) -> Iterator[str]:
    """Traffic within the idle time keeps a connection open."""
    with ClientConnection(ctx.at["quiet"]) as stream:
        for _ in range(4):
            time.sleep(0.35)
            stream.send(b"y")
            if stream.read_exactly(1) != b"y":
                yield "the connection died although it was used every 350 ms"
                return


def l4_names(ctx: ScriptContext) -> Iterator[str]:
    """A connection goes by the server name of its handshake, which the proxy reads and passes on untouched."""
    for name, pool in ctx.params["names"].items():
        endpoint = "" if pool is None else f"{pool}-0"
        before = ctx.endpoints.connections.copy()
        with ClientConnection(ctx.at["edge"], client=ctx.params.get("client", ""), timeout=4) as stream:
            stream.send(client_hello(name))
            stream.read_more(0.5)
            deadline = time.monotonic() + 2
            while endpoint and ctx.endpoints.connections == before and time.monotonic() < deadline:
                time.sleep(0.02)
            grown = sorted(ctx.endpoints.connections - before)
            if not endpoint and stream.end == "open":
                stream.read_to_end()
        if grown != ([endpoint] if endpoint else []):
            yield f"{name or '(no name)'} went to {grown}, expected {endpoint or 'nowhere'}"
        elif not endpoint and stream.end == "open":
            yield f"{name or '(no name)'}: the connection stays open"
