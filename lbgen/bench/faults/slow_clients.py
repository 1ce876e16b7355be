"""Clients that send the head of a request byte by byte."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lbgen.bench.constant_rate import trusting_context

if TYPE_CHECKING:
    from lbgen.bench.target import LoadTarget

_CONNECT_SECONDS = 2.0


class SlowClients:
    """Open connections; `send` sends one more byte on each."""

    def __init__(self, sockets: list[socket.socket], head: bytes) -> None:
        self._sockets = sockets
        self._head = head
        self.count = len(sockets)
        self.sent = 0

    def send(self) -> None:
        """Send the next byte of the head, which never ends, to all that are still open."""
        byte = self._head[self.sent : self.sent + 1] or b"x"
        self.sent += 1
        for each in self._sockets:
            with suppress(OSError):
                each.send(byte)

    def count_closed(self) -> int:
        """How many the engine closed, or answered."""
        closed = 0
        for each in self._sockets:
            try:
                each.recv(1)
                closed += 1  # an answer such as 408, or the end
            except (BlockingIOError, TimeoutError):
                continue
            except OSError as error:
                closed += "did not complete" not in str(error)  # what TLS says where nothing came
        return closed


@contextmanager
def slow_clients(place: tuple[str, int], target: LoadTarget, count: int) -> Iterator[SlowClients]:
    """`count` of them, as long as the block lasts; those that cannot connect are left out."""
    sockets: list[socket.socket] = []
    lines = (f"GET {target.target} HTTP/1.1", *(f"{name}: {value}" for name, value in target.headers), "X-Slow: ")
    head = "\r\n".join(lines).encode("latin-1")
    try:
        for _ in range(count):
            with suppress(OSError):
                each = socket.create_connection(place, _CONNECT_SECONDS)
                sockets.append(each)
                if target.server_name is not None:
                    sockets[-1] = trusting_context().wrap_socket(each, server_hostname=target.server_name)
                sockets[-1].setblocking(False)
        yield SlowClients(sockets, head)
    finally:
        for each in sockets:
            each.close()
