"""The endpoint of a benchmark: answers every HTTP/1.1 request with 200 from memory, on many ports, in one process.

One epoll loop, since the stand-ins of `lbgen up` (a thread for each connection) are slower than the engines. It runs as
a program and imports nothing of lbgen; its one argument is JSON: `addresses`, `ports`, `body_bytes`, `delays`, by port
the seconds after which it answers, or two between which it chooses, and `processes` (default 1) that share the ports.
"""

from __future__ import annotations

import ctypes
import gc
import heapq
import json
import os
import random
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress

_BACKLOG = 4096
_READ_BYTES = 65_536
_PR_SET_PDEATHSIG = 1
_END = b"\r\n\r\n"


class Connection:
    """A client; `received` is the start of an unfinished request, `skip` the bytes of its body still to come."""

    def __init__(self, client: socket.socket, delay: tuple[float, float] = (0.0, 0.0)) -> None:
        self.client = client
        self.received = b""
        self.unsent = b""
        self.skip = 0
        self.close = False
        self.delay = delay


class Server:
    """`answers`: by (closes, without body), the bytes that a request gets. `delays`: seconds by port, from
    and to. `later`: answers that wait, by time and number."""

    def __init__(self, answers: dict[tuple[bool, bool], bytes], delays: dict[int, tuple[float, float]]) -> None:
        self.answers = answers
        self.delays = delays
        self.later: list[tuple[float, int, Connection, bytes]] = []
        self.number = 0
        self.epoll = select.epoll()
        self.listeners: dict[int, socket.socket] = {}
        self.connections: dict[int, Connection] = {}

    def listen(self, address: str, ports: list[int]) -> None:
        """Accept on these ports. Raises OSError."""
        for port in ports:
            listener = socket.create_server((address, port), backlog=_BACKLOG, reuse_port=True)
            listener.setblocking(False)
            self.listeners[listener.fileno()] = listener
            self.epoll.register(listener, select.EPOLLIN)

    def serve(self) -> None:
        """Answer until a signal ends the process."""
        while True:
            for number, event in self.epoll.poll(self._send_due()):
                connection = self.connections.get(number)
                if connection is None:
                    if number in self.listeners:
                        self._accept(self.listeners[number])
                    continue
                try:
                    if event & select.EPOLLOUT:
                        self._send(connection, b"")
                    if event & ~select.EPOLLOUT and number in self.connections:
                        self._read(connection)
                except BlockingIOError:
                    continue
                except OSError:  # the client is gone
                    self._close(connection)

    def _send_due(self) -> float | None:
        """Send the answers whose time has come; seconds until the next."""
        while self.later:
            left = self.later[0][0] - time.monotonic()
            if left > 0:
                return left
            _, _, connection, answer = heapq.heappop(self.later)
            if connection.client.fileno() in self.connections:
                with suppress(OSError):  # what the next read finds as well
                    self._send(connection, answer)
        return None

    def _accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                client, _ = listener.accept()
                client.setblocking(False)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                delay = self.delays.get(client.getsockname()[1], (0.0, 0.0))
                self.connections[client.fileno()] = Connection(client, delay=delay)
                self.epoll.register(client, select.EPOLLIN)

    def _close(self, connection: Connection) -> None:
        if self.connections.pop(connection.client.fileno(), None) is not None:
            connection.client.close()

    def _read(self, connection: Connection) -> None:
        got = connection.client.recv(_READ_BYTES)
        if not got:
            self._close(connection)
            return
        answer = take_requests(connection, got, self.answers)
        if answer and connection.delay[1]:
            self.number += 1
            due = time.monotonic() + random.uniform(*connection.delay)  # noqa: S311  # a time, no secret
            heapq.heappush(self.later, (due, self.number, connection, answer))
        elif answer:
            self._send(connection, answer)

    def _send(self, connection: Connection, answer: bytes) -> None:
        waiting = connection.unsent + answer
        try:
            sent = connection.client.send(waiting)
        except BlockingIOError:
            sent = 0
        wrote_all, before = sent == len(waiting), bool(connection.unsent)
        connection.unsent = waiting[sent:]
        if wrote_all and connection.close:
            self._close(connection)
        elif wrote_all == before:  # the state of the socket changes
            self.epoll.modify(connection.client, select.EPOLLIN | (0 if wrote_all else select.EPOLLOUT))


def make_answers(body_bytes: int) -> dict[tuple[bool, bool], bytes]:
    """The answers with a JSON body of that many bytes."""
    body = b'"' + b"x" * max(0, body_bytes - 2) + b'"'
    found = {}
    for closes in (False, True):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d" % len(body)
        head += (b"\r\nConnection: close" if closes else b"") + _END
        found[closes, True], found[closes, False] = head, head + body
    return found


def take_requests(connection: Connection, got: bytes, answers: dict[tuple[bool, bool], bytes]) -> bytes:
    """The answers to all requests that `got` completes; what is left of it waits in `connection`."""
    found = []
    if connection.skip:
        used = min(connection.skip, len(got))
        connection.skip -= used
        got = got[used:]
    got = connection.received + got
    while not connection.close and got and not connection.skip:
        head, end, rest = got.partition(_END)
        if not end:
            break
        lower = head.lower()
        length = _length_of(lower)
        connection.skip = max(0, length - len(rest))
        got = rest[length:]
        connection.close = b"\r\nconnection: close" in lower or b" http/1.0" in lower.partition(b"\r\n")[0]
        found.append(answers[connection.close, head.startswith(b"HEAD ")])
    connection.received = got
    return b"".join(found)


def _length_of(lower: bytes) -> int:
    """The Content-Length of a head in lower case; 0 without one."""
    _, name, rest = lower.partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if name else 0


def main() -> None:
    """Serve as the argument says."""
    order = json.loads(sys.argv[1])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    pairs = {int(port): x if isinstance(x, list) else [x, x] for port, x in order.get("delays", {}).items()}
    delays = {port: (least, most) for port, (least, most) in pairs.items()}
    for _ in range(order.get("processes", 1) - 1):
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            break
    server = Server(make_answers(order["body_bytes"]), delays)
    for address in order["addresses"]:
        server.listen(address, order["ports"])
    gc.freeze()
    gc.disable()  # nothing here makes circles
    server.serve()


if __name__ == "__main__":
    main()
