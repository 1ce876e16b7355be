"""Endpoints that keep every byte that reaches them, and answer with the marks of the requests that they saw."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lbgen.conformance.safety.message import AmbiguousError, Message, parse_head, read_body
from lbgen.runtime.standins.accept import Server
from lbgen.runtime.standins.http1 import NAME

if TYPE_CHECKING:
    from lbgen.runtime.standins.accept import ConnectionInfo
    from lbgen.runtime.standins.stand_in import StandIn

MARK = re.compile(rb"mark[0-9a-f]{10}")
EARLY = "/early"  # a target with it is answered before its body is read, and the connection is kept
_HEAD_LIMIT = 8 << 20


class Arrival(Struct):
    """What an endpoint of `pool` got as one request: `head` and `body` as bytes. `message` None: `problem` says why the
    head cannot be read in one way. `complete`: the body ended as its framing says."""

    pool: str
    head: bytes
    message: Message | None = None
    body: bytearray = field(default_factory=bytearray)
    problem: str = ""
    complete: bool = False

    @property
    def marks(self) -> frozenset[bytes]:
        """The marks of all clients of which it holds bytes."""
        return frozenset(MARK.findall(self.head + self.body))


class Endpoints(Struct):
    """Running endpoints, in a thread of their own; `arrivals` in their order."""

    stand_ins: tuple[StandIn, ...]
    arrivals: list[Arrival] = field(default_factory=list)
    _servers: list[Server] = field(default_factory=list)

    async def start(self) -> None:
        """Listen. Raises OSError."""
        for each in self.stand_ins:
            sock = socket.socket(socket.AF_INET6 if ":" in each.host else socket.AF_INET, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((each.host, each.port))

            async def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: ConnectionInfo, of: StandIn = each
            ) -> None:
                try:
                    await self._serve(of, reader, writer)
                except ConnectionError:
                    pass  # the engine left
                finally:
                    writer.close()

            self._servers.append(Server(sock, each.tls, serve, limit=_HEAD_LIMIT, proxied=each.proxied))

    async def _serve(self, of: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    self.arrivals.append(Arrival(of.pool, error.partial, problem="the connection ends within a head"))
                return
            arrival = Arrival(of.pool, head)
            self.arrivals.append(arrival)
            try:
                message = arrival.message = parse_head(head)
                early = EARLY in message.target
                if early:
                    writer.write(_answer(of, arrival, 401))
                await read_body(reader, message.length, arrival.body)
            except AmbiguousError as error:
                arrival.problem = str(error)
                return
            except asyncio.IncompleteReadError:
                return
            arrival.complete = True
            if not early:
                writer.write(_answer(of, arrival, 200))


def _answer(of: StandIn, arrival: Arrival, status: int) -> bytes:
    """An answer that says which marks the request had."""
    marks = sorted(mark.decode() for mark in arrival.marks)
    body = json.dumps({"pool": of.pool, "marks": marks}).encode()
    if arrival.message is not None and arrival.message.method == "HEAD":
        body = b""
    fields = f"{NAME}: {of.name}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"HTTP/1.1 {status} Seen\r\n{fields}\r\n".encode() + body


@contextmanager
def endpoints(stand_ins: Iterable[StandIn]) -> Iterator[Endpoints]:
    """Run endpoints for the length of a block. Raises OSError where a port is taken."""
    made = Endpoints(tuple(stand_ins))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="endpoints", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(made.start(), loop).result()
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(_stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stop() -> None:
    """End all that runs in this loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
