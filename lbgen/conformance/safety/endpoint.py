"""Endpoints that keep every byte that reaches them, and answer with the marks of the requests that they saw.

They read requests so strictly that two servers cannot read them in two ways."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from msgspec import Struct, field

from lbgen.plan.request import Headers
from lbgen.runtime.standins.http1 import NAME
from lbgen.runtime.standins.stand_in import StandIn

MARK = re.compile(rb"mark[0-9a-f]{10}")
EARLY = "/early"  # a target with it is answered before its body is read, and the connection is kept
_HEAD_LIMIT = 8 << 20
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_LINE = re.compile(rb"(%b) ([!-~]+) HTTP/(1\.[01])" % _TOKEN)
_FIELD = re.compile(rb"(%b):[ \t]*([^\x00\r\n]*)" % _TOKEN)  # RFC 9110 5.5 lets other controls pass
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\x00\r\n]*)?\r\n")
_LONGEST = 1 << 20  # bytes of a body that are read at once


class AmbiguousError(ValueError):
    """The bytes can be read in two ways; says how."""


class Message(Struct, frozen=True):
    """The head of a request; text is latin-1, names in lower case. `length` of its body, None = chunked."""

    method: str
    target: str
    headers: Headers
    length: int | None

    def lines(self, name: str) -> list[str]:
        """The values of all lines of that lower-case name."""
        return [value for found, value in self.headers if found == name]


def parse_head(head: bytes) -> Message:
    """The message of a head that ends with an empty line. Raises AmbiguousError."""
    first, *lines = head[:-4].split(b"\r\n")
    request = _LINE.fullmatch(first)
    if request is None:
        raise AmbiguousError(f"request line {first[:120]!r}")
    headers = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise AmbiguousError(f"header line {line[:120]!r}")
        headers.append((field[1].decode().lower(), field[2].decode("latin-1").strip(" \t")))
    message = Message(request[1].decode(), request[2].decode(), tuple(headers), 0)
    if len(message.lines("host")) != 1 and request[3] == b"1.1":
        raise AmbiguousError(f"{len(message.lines('host'))} Host lines")
    lengths, codings = message.lines("content-length"), message.lines("transfer-encoding")
    if len(lengths) + len(codings) > 1:
        raise AmbiguousError(f"Content-Length {lengths}, Transfer-Encoding {codings}")
    if codings and codings[0].lower() != "chunked":
        raise AmbiguousError(f"Transfer-Encoding {codings[0]!r}")
    if lengths and not re.fullmatch("[0-9]{1,18}", lengths[0]):
        raise AmbiguousError(f"Content-Length {lengths[0]!r}")
    length = None if codings else int(lengths[0]) if lengths else 0
    return Message(message.method, message.target, message.headers, length)


async def read_body(reader: asyncio.StreamReader, length: int | None, body: bytearray) -> None:
    """Append the body to `body` as it comes. Raises AmbiguousError, IncompleteReadError where it ends early."""
    if length is not None:
        await _append(reader, length, body)
        return
    while True:
        size = _SIZE.fullmatch(line := await reader.readuntil(b"\r\n"))
        if size is None:
            raise AmbiguousError(f"chunk size {line[:120]!r}")
        if not int(size[1], 16):
            break
        await _append(reader, int(size[1], 16), body)
        if (end := await reader.readexactly(2)) != b"\r\n":
            raise AmbiguousError(f"{end!r} after a chunk")
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        if (
            _FIELD.fullmatch(line[:-2].lstrip(b" \t")) is None
        ):  # folded: the body ends alike, and no rule reads trailers
            raise AmbiguousError(f"trailer line {line[:120]!r}")
        body += line  # whose marks count too


async def _append(reader: asyncio.StreamReader, count: int, body: bytearray) -> None:
    while count:
        part = await reader.read(min(count, _LONGEST))
        if not part:
            raise asyncio.IncompleteReadError(b"", count)
        body += part
        count -= len(part)


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
    _servers: list[asyncio.Server] = field(default_factory=list)

    async def start(self) -> None:
        """Listen, without TLS. Raises OSError."""
        for each in self.stand_ins:
            serve = partial(self._serve, each)
            self._servers.append(
                await asyncio.start_server(serve, each.host, each.port, limit=_HEAD_LIMIT, backlog=1024)
            )

    async def _serve(self, of: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # the engine left
            await self._answer(of, reader, writer)
        writer.close()

    async def _answer(self, of: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
