"""Clients on kept connections and with open sockets, and what they lost."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = 4
PAUSE = 0.03  # seconds; clients that ask more often take a CPU from what they watch


@dataclass(slots=True)
class Traffic:
    """What clients on kept connections saw. A connection that the proxy closed between two requests, with a `FIN` seen
    before the next request was sent, is opened anew: nothing was lost. Anything else that fails is."""

    port: int
    pool: str = "app"
    pause: float = PAUSE  # seconds between the requests of a client
    host: str = "127.0.0.1"
    good: int = 0
    lost: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def client(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stop.is_set():
            if connection is None or _closed(connection):
                connection = http.client.HTTPConnection(self.host, self.port, timeout=5)
            try:
                connection.request("GET", "/steady")
                answer = connection.getresponse()
                pool = json.loads(answer.read()).get("pool") if answer.status == 200 else None
                if pool == self.pool:
                    self.good += 1
                else:
                    self.lost.append(f"status {answer.status}")
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.lost.append(f"{type(error).__name__}: {error}")
                connection.close()
                connection = None
            time.sleep(self.pause)
        if connection is not None:
            connection.close()


def _closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the proxy has said that it will take no further request here."""
    if connection.sock is None:
        return True
    connection.sock.setblocking(False)
    try:
        return connection.sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        with suppress(OSError):
            connection.sock.settimeout(5)


@contextmanager
def traffic(port: int, pool: str = "app", pause: float = PAUSE, host: str = "127.0.0.1") -> Iterator[Traffic]:
    """Clients that ask again and again for as long as the block lasts."""
    seen = Traffic(port, pool, pause, host)
    threads = [threading.Thread(target=seen.client) for _ in range(CLIENTS)]
    for each in threads:
        each.start()
    try:
        yield seen
    finally:
        seen._stop.set()
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
                rest -= len(self._some())
            return b" 200 " in head
        except OSError:
            return False

    def _some(self) -> bytes:
        some = self._socket.recv(65536)
        if not some:
            raise ConnectionResetError
        return some

    def _until(self, end: bytes) -> bytes:
        got = b""
        while end not in got:
            got += self._some()
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
