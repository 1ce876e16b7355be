"""The HTTP/2 side of a stand-in: the same account and faults as over HTTP/1.1, per stream."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from msgspec import Struct, field
from msgspec.structs import replace

from lbgen.runtime.standins.http1 import CONTROL, NAME, SEEN, Arrival, body_of, reset
from lbgen.runtime.standins.stand_in import Behaviour

PREFACE = b"PRI * HTTP/2.0\r\n\r\n"  # what `read_request` has taken; `SM` follows


class _Stream(Struct):
    arrival: Arrival
    body: bytearray = field(default_factory=bytearray)
    trailers: tuple[tuple[str, str], ...] = ()
    task: asyncio.Task[None] | None = None
    more: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)  # of a request that is echoed as it comes


class Http2:
    """A connection. `begun` gets each head; `judge` of each request, whole or to be echoed as it comes, and says
    how to answer; `account` makes the JSON."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        name: str,
        begun: Callable[[Arrival], None],
        judge: Callable[[Arrival], Behaviour],
        account: Callable[[Arrival], bytes],
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.name = name
        self.begun = begun
        self.judge = judge
        self.account = account
        self.connection = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self.streams: dict[int, _Stream] = {}
        self.window = asyncio.Event()

    async def run(self) -> None:
        """Serve until the client leaves or breaks the protocol."""
        self.connection.initiate_connection()
        data = PREFACE
        try:
            while data:
                try:
                    events = self.connection.receive_data(data)
                except ProtocolError:  # h2 has put the GOAWAY into what is to be sent
                    await self._flush()
                    return
                for event in events:
                    if isinstance(event, ConnectionTerminated):
                        return
                    self._take(event)
                await self._flush()
                data = await self.reader.read(65536)
        finally:
            for stream in self.streams.values():
                if stream.task is not None:
                    stream.task.cancel()

    async def _flush(self) -> None:
        self.writer.write(self.connection.data_to_send())
        await self.writer.drain()

    def _take(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=int(number)):
                self.streams[number] = stream = _Stream(_arrival(event))
                self.begun(stream.arrival)
                if '"stream"' in (stream.arrival.header(CONTROL) or ""):
                    stream.task = asyncio.create_task(self._guarded(number, stream))
            case DataReceived(stream_id=int(number), data=bytes(data), flow_controlled_length=int(length)):
                self.connection.acknowledge_received_data(length, number)
                if number in self.streams:
                    self.streams[number].body += data
                    self.streams[number].more.put_nowait(data)
            case TrailersReceived(stream_id=int(number)):
                if number in self.streams:
                    self.streams[number].trailers = tuple((str(n), str(v)) for n, v in event.headers or ())
            case StreamEnded(stream_id=int(number)):
                stream = self.streams[number]
                stream.more.put_nowait(b"")
                if stream.task is None:
                    stream.arrival = replace(stream.arrival, body=bytes(stream.body), trailers=stream.trailers)
                    stream.task = asyncio.create_task(self._guarded(number, stream))
            case StreamReset(stream_id=int(number)):
                gone = self.streams.pop(number, None)
                if gone is not None and gone.task is not None:
                    gone.task.cancel()
            case WindowUpdated():
                self.window.set()

    async def _guarded(self, number: int, stream: _Stream) -> None:
        with suppress(ProtocolError, ConnectionError):  # the stream or the client went away meanwhile
            try:
                await self._answer(number, stream, self.judge(stream.arrival))
            except ValueError as error:
                self.connection.send_headers(number, [(":status", "400"), (NAME, self.name)])
                self.connection.send_data(number, f"{error}\n".encode(), end_stream=True)
                await self._flush()
        self.streams.pop(number, None)

    async def _answer(self, number: int, stream: _Stream, how: Behaviour) -> None:
        if how.mode == "stream":
            await self._echo(number, stream, how)
            return
        arrival = stream.arrival
        told = self.account(arrival)
        for status in how.interim:
            self.connection.send_headers(number, [(":status", str(status))])
        match how.mode:
            case "close":
                self.writer.close()
                return
            case "reset":
                reset(self.writer)
                return
            case "refuse_stream":
                self.connection.reset_stream(number, ErrorCodes.REFUSED_STREAM)
                await self._flush()
                return
            case "garbage":
                self.writer.write(b"\x00\x01 this is not HTTP \r\n\r\n")
                self.writer.close()
                return
        bodiless = arrival.method == "HEAD" or how.status in (204, 304)
        headers = [(":status", "200"), (NAME, self.name), ("content-type", "application/json")]
        body = told
        if how.mode == "fixed":
            headers = [(":status", str(how.status)), (NAME, self.name), (SEEN, base64.b64encode(told).decode())]
            headers += [(n.lower(), v) for n, v in how.headers]
            body = body_of(how)
        elif bodiless:
            headers.append((SEEN, base64.b64encode(told).decode()))
        if not (how.chunked or how.mode in ("drip", "half_close") or how.status in (204, 304)):
            headers.append(("content-length", str(len(body))))
        if how.mode == "hang":
            await asyncio.sleep(how.wait_ms / 1000)
        body = b"" if bodiless else body
        self.connection.send_headers(number, headers, end_stream=not body and not how.trailers)
        await self._flush()
        if how.mode in ("cut_body", "reset_body", "stall_body"):
            await self._send(number, body[: len(body) // 2])
            await asyncio.sleep(how.wait_ms / 1000 if how.mode == "stall_body" else 0.05)
            self.connection.reset_stream(number, ErrorCodes.INTERNAL_ERROR)
            await self._flush()
            return
        step = -(-len(body) // how.count) if how.mode == "drip" else len(body)
        for at in range(0, len(body), max(step, 1)):
            if how.mode == "drip":
                await asyncio.sleep(how.wait_ms / 1000)
            await self._send(number, body[at : at + step])
        await self._finish(number, how, nothing_sent=not body)

    async def _echo(self, number: int, stream: _Stream, how: Behaviour) -> None:
        """Send the head at once, then each part of the request body as it arrives, then the trailers."""
        headers = [(":status", str(how.status)), (NAME, self.name), *((n.lower(), v) for n, v in how.headers)]
        self.connection.send_headers(number, headers)
        await self._flush()
        while data := await stream.more.get():
            await self._send(number, data)
        await self._finish(number, how, nothing_sent=False)

    async def _finish(self, number: int, how: Behaviour, *, nothing_sent: bool) -> None:
        if how.trailers:
            self.connection.send_headers(number, list(how.trailers), end_stream=True)
        elif not nothing_sent:
            self.connection.end_stream(number)
        await self._flush()

    async def _send(self, number: int, data: bytes) -> None:
        while data:
            room = min(self.connection.local_flow_control_window(number), self.connection.max_outbound_frame_size)
            if room <= 0:
                self.window.clear()
                await self.window.wait()
                continue
            self.connection.send_data(number, data[:room])
            data = data[room:]
            await self._flush()


def _arrival(event: RequestReceived) -> Arrival:
    pairs = [(str(n), str(v)) for n, v in event.headers or ()]
    pseudo = {n: v for n, v in pairs if n.startswith(":")}
    headers = [(n, v) for n, v in pairs if not n.startswith(":")]
    if ":authority" in pseudo:
        headers.insert(0, ("host", pseudo[":authority"]))
    method, path, scheme = (pseudo.get(name, "") for name in (":method", ":path", ":scheme"))
    return Arrival(method, path, "2", tuple(headers), b"", scheme=scheme)
