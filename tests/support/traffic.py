"""Clients on kept connections and with open sockets, and what they lost."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = 4
KEPT = " on a kept connection"
PAUSE = 0.03  # seconds; clients that ask more often take a CPU from what they watch


@dataclass(slots=True)
class Traffic:
    """What clients on kept connections saw. A connection that the proxy closed between two requests, with a `FIN` seen
    before the next request was sent, is opened anew: nothing was lost. Anything else that fails is."""

    port: int
    pool: str = "app"
    pause: float = PAUSE  # seconds between the requests of a client
    host: str = "127.0.0.1"
    fresh: bool = False  # each request on a connection of its own
    authority: str = ""  # the default is host and port
    path: str = "/steady"
    tls: ssl.SSLContext | None = None  # with the host of `authority` as the server name
    good: int = 0
    lost: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def client(self) -> None:
        more = "Connection: close\r\n" if self.fresh else ""
        host = self.authority or f"{self.host}:{self.port}"
        request = f"GET {self.path} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: identity\r\n{more}\r\n".encode()
        connection: socket.socket | None = None
        kept = ""
        while not self._stop.is_set():
            try:
                kept = KEPT
                if connection is None or _closed(connection):
                    kept = ""
                    if connection is not None:
                        connection.close()
                    connection = socket.create_connection((self.host, self.port), timeout=5)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    if self.tls is not None:
                        connection = self.tls.wrap_socket(connection, server_hostname=host.partition(":")[0])
                connection.sendall(request)
                status, body, closes = _answer(connection)
                pool = json.loads(body).get("pool") if status == 200 else None
                if pool == self.pool:
                    self.good += 1
                else:
                    self.lost.append(f"status {status}")
                if closes:
                    connection.close()
                    connection = None
            except (OSError, ValueError) as error:
                self.lost.append(f"{type(error).__name__}: {error}{kept}")
                if connection is not None:
                    connection.close()
                connection = None
            time.sleep(self.pause)
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        """Have its clients end after the request that they wait for."""
        self._stop.set()


def _answer(connection: socket.socket) -> tuple[int, bytes, bool]:
    """The status, the body, and whether the connection ends with it; `http.client` takes twice the CPU. ValueError when
    it is no whole answer."""
    head, rest = _read_to(connection, b"", b"\r\n\r\n")
    first, _, fields = head.lower().partition(b"\r\n")
    words = first.split(b" ", 2)
    if len(words) < 2 or words[0] not in (b"http/1.1", b"http/1.0"):
        raise ValueError(f"no answer: {first[:80]!r}")
    values = {key: value.strip() for key, _, value in (x.partition(b":") for x in fields.split(b"\r\n"))}
    closes = words[0] == b"http/1.0" or b"close" in values.get(b"connection", b"")
    if b"chunked" in values.get(b"transfer-encoding", b""):
        body = b""
        while True:
            line, rest = _read_to(connection, rest, b"\r\n")
            size = int(line.partition(b";")[0], 16)
            if not size:
                break
            piece, rest = _read_bytes(connection, rest, size + 2)
            body += piece[:-2]
        while line:  # trailers
            line, rest = _read_to(connection, rest, b"\r\n")
    else:
        body, rest = _read_bytes(connection, rest, int(values.get(b"content-length", b"none")))
    if rest:
        raise ValueError(f"more than an answer: {rest[:80]!r}")
    return int(words[1]), body, closes


def _read_to(connection: socket.socket, got: bytes, end: bytes) -> tuple[bytes, bytes]:
    """What comes before `end`, and what has come after it; `got` has been read before."""
    while end not in got:
        got += _read_some(connection)
    before, _, after = got.partition(end)
    return before, after


def _read_bytes(connection: socket.socket, got: bytes, size: int) -> tuple[bytes, bytes]:
    """As `_read_to`, up to `size` bytes."""
    while len(got) < size:
        got += _read_some(connection)
    return got[:size], got[size:]


def _read_some(connection: socket.socket) -> bytes:
    some = connection.recv(65536)
    if not some:
        raise ConnectionResetError("the connection ended within an answer")
    return some


def _closed(connection: socket.socket) -> bool:
    """Whether the proxy has said that it will take no further request here."""
    connection.setblocking(False)
    try:
        if isinstance(connection, ssl.SSLSocket):
            return connection.recv(1) == b""
        return connection.recv(1, socket.MSG_PEEK) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        with suppress(OSError):
            connection.settimeout(5)


@contextmanager
def traffic(
    port: int,
    pool: str = "app",
    pause: float = PAUSE,
    host: str = "127.0.0.1",
    *,
    fresh: bool = False,
    authority: str = "",
    tls: ssl.SSLContext | None = None,
) -> Iterator[Traffic]:
    """Clients that ask again and again for as long as the block lasts."""
    seen = Traffic(port, pool, pause, host, fresh, authority, tls=tls)
    threads = [threading.Thread(target=seen.client) for _ in range(CLIENTS)]
    for each in threads:
        each.start()
    try:
        yield seen
    finally:
        seen.stop()
        for each in threads:
            each.join()


@dataclass(slots=True)
class Open:
    """A WebSocket, or a TCP stream to an endpoint that speaks HTTP: does what is sent come back?"""

    kind: str  # ws or tcp
    port: int
    reloads: int = 0  # that it has lived through
    since: float = 0.0  # the first of them, on the monotonic clock
    _socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        if self.kind == "ws":
            self._socket.sendall(
                b"GET /open HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            )
            assert b" 101 " in self._until(b"\r\n\r\n")
        assert self.echoes()

    def echoes(self) -> bool:
        """One message there and back."""
        try:
            if self.kind == "ws":  # one masked frame of text
                self._socket.sendall(b"\x81\x85\0\0\0\0hello")
                return b"hello" in self._until(b"hello")
            self._socket.sendall(b"GET /open HTTP/1.1\r\nHost: h\r\n\r\n")
            head = self._until(b"\r\n\r\n")
            [length] = re.findall(rb"(?i)content-length: (\d+)", head) or [b"0"]
            rest = int(length) - len(head.partition(b"\r\n\r\n")[2])
            while rest > 0:
                rest -= len(_read_some(self._socket))
            return b" 200 " in head
        except OSError:
            return False

    def _until(self, end: bytes) -> bytes:
        got = b""
        while end not in got:
            got += _read_some(self._socket)
        return got

    def close(self) -> None:
        self._socket.close()


@dataclass(slots=True)
class Sockets:
    """Open sockets that are looked at after each reload; one that was cut is opened anew. `cut`: (kind, reloads that
    it outlived, seconds from the first of them to its end at the latest)."""

    ports: dict[str, int]
    each: int = 4
    cut: list[tuple[str, int, float]] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)

    def __enter__(self) -> Sockets:
        self.open = [Open(kind, port) for kind, port in self.ports.items() for _ in range(self.each)]
        return self

    def __exit__(self, *error: object) -> None:
        for each in self.open:
            each.close()

    def reloading(self) -> None:
        for each in self.open:
            each.since = each.since or time.monotonic()

    def reloaded(self) -> None:
        """Look at all of them."""
        for place, each in enumerate(self.open):
            if each.echoes():
                each.reloads += 1
                continue
            self.cut.append((each.kind, each.reloads, time.monotonic() - each.since))
            each.close()
            self.open[place] = Open(each.kind, each.port)

    def __str__(self) -> str:
        shown = ", ".join(f"{kind} in reload {n + 1} after {seconds:.0f} s" for kind, n, seconds in self.cut[:8])
        return f"{len(self.cut)} sockets cut" + (f" ({shown}{' ...' if len(self.cut) > 8 else ''})" if shown else "")
