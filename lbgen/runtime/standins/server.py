"""Stand-in endpoints: servers in one event loop, one for each endpoint, which can also simulate faults."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import socket
import ssl
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.standins import http1
from lbgen.runtime.standins.accept import ConnectionInfo, Server
from lbgen.runtime.standins.http2 import Http2
from lbgen.runtime.standins.stand_in import JSON, Behaviour, StandIn, StandInTls, decode_list


class DatagramServer(asyncio.DatagramProtocol):
    """Made by `open`; `seen` is called for each datagram."""

    def __init__(self, name: str, seen: Callable[[], None]) -> None:
        self._name = name.encode()
        self._seen = seen
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def open(cls, name: str, host: str, port: int, seen: Callable[[], None]) -> DatagramServer:
        """Bind and answer from now on; OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_datagram_endpoint(lambda: cls(name, seen), local_addr=(host, port))
        return made

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # what UDP has
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._seen()
        if self._transport is not None:
            self._transport.sendto(self._name + b": " + data, addr)

    async def close(self) -> None:
        """The port is free when this returns and the loop has turned once."""
        if self._transport is not None:
            self._transport.close()
            await asyncio.sleep(0)


REMEMBERED = 20_000  # requests


class ReceivedRequest(Struct, frozen=True):
    """A complete request that reached endpoint `name` on its connection of that number. `tag` is that of its control
    header; `at` is `time.monotonic` seconds."""

    name: str
    tag: str
    method: str
    target: str
    body_sha256: str
    at: float
    connection: int
    headers: tuple[tuple[str, str], ...] = ()


class StandInServers(Struct):
    """Running stand-ins. By endpoint name: `connections`, those that `ended`, `heads` (requests whose head is there),
    `body_bytes` (of HTTP/1.x, as they come), `requests` (whole ones), `answered` (the kernel has the whole answer).
    `seen` are the latest requests in order. `behave` and `listen` change one while it runs."""

    stand_ins: tuple[StandIn, ...]
    connections: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    heads: Counter[str] = field(default_factory=Counter)
    body_bytes: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    seen: deque[ReceivedRequest] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _behaviours: dict[tuple[str, str], Behaviour] = field(default_factory=dict)
    _tags: Counter[tuple[str, str]] = field(default_factory=Counter)
    _servers: dict[str, Server | DatagramServer] = field(default_factory=dict)
    _held: dict[str, list[socket.socket]] = field(default_factory=dict)
    _tasks: dict[asyncio.Task[None], str] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop | None = None

    def behave(self, name: str, behaviour: Behaviour, path: str = "") -> None:
        """Set the behaviour of `name` from its next request on; with `path`, only for requests for that path."""
        self._behaviours[name, path] = behaviour

    def listen(self, name: str, how: str) -> None:
        """Make `name` refuse connections, drop them or listen again (see `StandIn.listen`), from now on; the
        connections it has are reset. For other threads than the stand-ins' own."""
        assert self._loop is not None  # noqa: S101  # started
        asyncio.run_coroutine_threadsafe(self._switch(name, how), self._loop).result()

    def show(self, name: str, tls: StandInTls) -> None:
        """Make `name` listen with another certificate; `listen` undoes it."""
        assert self._loop is not None  # noqa: S101  # started
        asyncio.run_coroutine_threadsafe(self._switch(name, "yes", tls), self._loop).result()

    @property
    def listening(self) -> frozenset[str]:
        """Return the names of the stand-ins that accept connections."""
        return frozenset(self._servers)

    def tagged(self, tag: str) -> list[ReceivedRequest]:
        """Return the arrivals of the request with that tag, in order."""
        return [seen for seen in tuple(self.seen) if seen.tag == tag]

    async def _switch(self, name: str, how: str, tls: StandInTls | None = None) -> None:
        stand_in = next(x for x in self.stand_ins if x.name == name)
        await self._close(name)
        await self._listen(replace(stand_in, listen=how, tls=tls or stand_in.tls))

    async def _close(self, name: str) -> None:
        if name in self._servers:
            await self._servers.pop(name).close()
        for sock in self._held.pop(name, []):
            sock.close()
        tasks = [task for task, owner in self._tasks.items() if owner == name]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def start(self) -> None:
        """Bind and listen; EngineError LB404 when an address is taken."""
        self._loop = asyncio.get_running_loop()
        for stand_in in self.stand_ins:
            self._behaviours.setdefault((stand_in.name, ""), stand_in.behaviour)
            try:
                await self._listen(stand_in)
            except OSError as error:
                await self.stop()
                place = f"{stand_in.host}:{stand_in.port}"
                message = f"stand-in endpoint {stand_in.name} cannot listen on {place}: {error.strerror or error}"
                raise EngineError(Diagnostic("LB404", message)) from error

    async def stop(self) -> None:
        """Close all listeners and connections."""
        for stand_in in self.stand_ins:
            await self._close(stand_in.name)

    async def _listen(self, stand_in: StandIn) -> None:
        if stand_in.datagrams:
            name = stand_in.name

            def seen() -> None:
                self.requests[name] += 1

            if stand_in.listen == "yes":
                self._servers[name] = await DatagramServer.open(name, stand_in.host, stand_in.port, seen)
            return
        family = socket.AF_INET6 if ":" in stand_in.host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        held = self._held.setdefault(stand_in.name, [])
        held.append(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((stand_in.host, stand_in.port))
        if stand_in.listen == "refuse":  # bound but not listening: nobody else gets the port, connections are refused
            return
        if stand_in.listen == "drop":
            sock.listen(0)
            for _ in range(4):
                filler = socket.socket(family, socket.SOCK_STREAM)
                filler.setblocking(False)
                with suppress(BlockingIOError):
                    filler.connect((stand_in.host, stand_in.port))
                held.append(filler)
            return

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: ConnectionInfo) -> None:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101  # a server callback always runs in one
            self._tasks[task] = stand_in.name
            try:
                await self._serve(stand_in, reader, writer, hello)
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
                pass  # the peer left, in the middle of TLS maybe
            except asyncio.CancelledError:
                if not writer.is_closing():
                    http1.reset(writer)  # as a server does that dies
            finally:
                del self._tasks[task]
                self.ended[stand_in.name] += 1
                writer.close()

        limit = http1.HEAD_LIMIT
        self._servers[stand_in.name] = Server(sock, stand_in.tls, serve, limit=limit, proxied=stand_in.proxied)
        held.remove(sock)

    async def _serve(
        self, stand_in: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: ConnectionInfo
    ) -> None:
        name = stand_in.name

        def begun(arrival: http1.Arrival) -> None:
            self.heads[name] += 1

        def more(count: int) -> None:
            self.body_bytes[name] += count

        def how_to(arrival: http1.Arrival) -> Behaviour:
            self.requests[name] += 1
            return self._how(name, arrival, connection)

        def account(arrival: http1.Arrival) -> bytes:
            found = {**http1.account(name, stand_in.pool, arrival, hello), "connection": connection}
            return (json.dumps(found) + "\n").encode()

        self.connections[name] += 1
        connection = self.connections[name]
        writer.transport.set_write_buffer_limits(high=1, low=0)  # what is drained has gone to the kernel
        own = self._behaviours[name, ""]
        first = await reader.read(1) if stand_in.http and own.mode in http1.NO_HTTP else b""
        if own.mode in http1.NO_HTTP and not (first and first in http1.METHODS):
            writer.write(own.body.encode("latin-1"))
            data = first
            while data := data or await reader.read(65536):
                if own.mode == "echo":
                    writer.write(data)
                    await writer.drain()
                data = b""
            if own.mode == "echo":
                writer.write(f"end of {name}\n".encode())
            else:
                await asyncio.sleep(own.wait_ms / 1000)
            return
        while True:
            try:
                arrival = await http1.read_request(reader, writer, begun, more, first)
                first = b""
                if arrival is None:
                    return
                if arrival.method == "PRI":
                    await Http2(reader, writer, name, begun, how_to, account).run()
                    return
                how = how_to(arrival)
            except (http1.BadRequestError, ValueError) as error:
                body = f"stand-in {name}: {error}\n".encode("latin-1", "replace")
                writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                return
            told = account(arrival)
            if http1.is_websocket(arrival) and how.mode == "json":
                await http1.websocket(reader, writer, name, arrival, told)
                return
            reusable = await http1.answer(writer, name, arrival, told, how)
            await writer.drain()
            self.answered[name] += 1
            asked = (arrival.header("connection") or "").lower()
            if not reusable or asked == "close" or (arrival.version == "1.0" and asked != "keep-alive"):
                return

    def _how(self, name: str, arrival: http1.Arrival, connection: int) -> Behaviour:
        """Record the request and return its behaviour: that of its path or endpoint, else of its control header."""
        asked = http1.control_of(arrival)
        path = arrival.target.partition("?")[0]
        own = self._behaviours.get((name, path)) or self._behaviours[name, ""]
        if own.mode in http1.NO_HTTP:
            own = JSON
        tag = "" if asked is None else asked.tag
        digest = hashlib.sha256(arrival.body).hexdigest()
        now = time.monotonic()
        self.seen.append(
            ReceivedRequest(name, tag, arrival.method, arrival.target, digest, now, connection, arrival.headers)
        )
        if asked is None or own.mode != "json":
            return own
        steps = tag, name.rpartition("-")[0]  # a mirror's copy is no try
        before = self._tags[steps]
        self._tags[steps] += bool(tag)
        return asked.step(before)


@contextmanager
def stand_in_servers(stand_ins: Iterable[StandIn]) -> Iterator[StandInServers]:
    """Run stand-ins in a thread of this process for the length of a `with`; EngineError when a port is taken."""
    group = StandInServers(tuple(stand_ins))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="stand-ins", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(group.start(), loop).result()
        yield group
    finally:
        asyncio.run_coroutine_threadsafe(group.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def serve_list(file: Path, tell: Callable[[EngineError | None], None]) -> None:
    """Serve the list of stand-ins in `file`, and after each SIGHUP what it has more then. `tell` gets None once all
    listen, else why new ones do not. Raises EngineError LB404 when the first ones do not."""
    again = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, again.set)
    groups: list[StandInServers] = []
    while True:
        there = {each for group in groups for each in group.stand_ins}
        new = StandInServers(tuple(each for each in decode_list(file.read_bytes()) if each not in there))
        try:
            await new.start()
        except EngineError as error:
            if not groups:
                raise
            tell(error)
        else:
            groups.append(new)
            tell(None)
        await again.wait()
        again.clear()


def _print(error: EngineError | None) -> None:
    sys.stdout.write("ready\n" if error is None else f"{error}\n")
    sys.stdout.flush()


def main() -> int:
    """`python -m lbgen.runtime.standins.server FILE`: serve the stand-ins in FILE until SIGTERM or SIGINT; prints
    `ready` once all listen. Exit 3 when an address is taken."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m lbgen.runtime.standins.server FILE\n")
        return 2
    try:
        asyncio.run(serve_list(Path(sys.argv[1]), _print))
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
