"""A generator of constant rate without coordinated omission: requests are due by a clock, whatever the answers do.

Latency counts from the time at which a request was due, so a server that stalls delays every request that became due
meanwhile, also those that found no free connection. It runs as a program and imports nothing of lbgen; its one argument
is JSON: `address`, `port`, `request` (the bytes as Latin-1), `connections` at most, `rate` per second, `seconds`,
`keep_alive`, and `server_name` for TLS, or null. `each` (default false): connections are opened when they are needed,
and each request is in the output. It prints JSON: `Figures`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import resource
import select
import socket
import ssl
import sys
import time

DRAIN_SECONDS = 5.0  # how long after the last request was due its answer may come
_READ_BYTES = 262_144
_END = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_PR_SET_TIMERSLACK = 29
_WANTS = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


class Connection:
    """A connection and its request: `due` is when that should have been sent, `length` that of the whole answer."""

    def __init__(self, socket: socket.socket) -> None:
        self.socket = socket
        self.due = 0.0
        self.received = b""
        self.length: int | None = None
        self.ready = False
        self.busy = False


class Figures:
    """What came of the requests: times in seconds. `elapsed`: until the last request was sent, as a last answer that
    takes long is no lower rate; until the end where some were not sent. `late`: requests without an answer at the end,
    which count in the percentiles with the time until then. `failed`: connections that broke. `busy`: share of a core
    that this used. `began`: when the clock started, as `time.monotonic`. `each`: where asked for, when each request was
    due after that, what it took, and its status, 0 without an answer."""

    def __init__(
        self,
        answered: int = 0,
        elapsed: float = 0.0,
        percentiles: dict[str, float] | None = None,
        late: int = 0,
        failed: int = 0,
        refused: int = 0,
        busy: float = 0.0,
        began: float = 0.0,
        each: list[tuple[float, float, int]] | None = None,
    ) -> None:
        self.answered = answered
        self.elapsed = elapsed
        self.percentiles = {} if percentiles is None else percentiles
        self.late = late
        self.failed = failed
        self.refused = refused
        self.busy = busy
        self.began = began
        self.each = [] if each is None else each


class Generator:
    """The loop: sends what is due on free connections, reads answers, sleeps until the next is due."""

    def __init__(self, order: dict[str, object]) -> None:
        self.address = (str(order["address"]), int(str(order["port"])))
        self.request = str(order["request"]).encode("latin-1")
        self.rate = float(str(order["rate"]))
        self.count = math.ceil(self.rate * float(str(order["seconds"])))
        self.keep_alive = bool(order["keep_alive"])
        self.server_name = order["server_name"]
        self.context = trusting_context() if self.server_name is not None else None
        self.most = int(str(order["connections"]))
        self.each = bool(order.get("each"))
        self.epoll = select.epoll()
        self.connections: dict[int, Connection] = {}
        self.free: list[Connection] = []
        self.times: list[float] = []
        self.found = Figures()

    def run(self) -> Figures:
        """Send all requests, and wait for their answers."""
        if self.keep_alive and not self.each:
            self._connect_all()
        before, start = time.process_time(), time.perf_counter()
        sent, count, step, free = 0, self.count, 1 / self.rate, self.free
        end = start + count * step + DRAIN_SECONDS
        last = self.found.began = start
        while (now := time.perf_counter()) < end:
            while sent < count and (due := start + sent * step) <= now and (connection := self._take()) is not None:
                sent, last = sent + 1, now
                connection.due, connection.busy = due, True
                if connection.ready:
                    self._send(connection)
            if sent == count and not any(each.busy for each in self.connections.values()):
                break
            can_send = sent < count and (free or len(self.connections) < self.most)
            wait = (start + sent * step if can_send else end) - time.perf_counter()
            if wait > 0:
                select.select([self.epoll], [], [], wait)  # epoll alone sleeps whole milliseconds
            for number, event in self.epoll.poll(0):
                self._handle(self.connections[number], event)
        end = time.perf_counter()
        waiting = [each.due for each in self.connections.values() if each.busy]
        waiting += [start + number * step for number in range(sent, count)]
        self.found.late = len(waiting)
        for due in waiting:
            self._count(due, end, 0)
        self.found.answered = len(self.times) - len(waiting)
        self.found.elapsed = (last if sent == count else end) - start + step
        self.found.percentiles = percentiles(self.times)
        self.found.busy = (time.process_time() - before) / (end - start)
        return self.found

    def _connect_all(self) -> None:
        """Open every connection before the clock starts."""
        for _ in range(self.most):
            self.free.append(self._open())
        end = time.perf_counter() + DRAIN_SECONDS
        while not all(each.ready for each in self.connections.values()) and time.perf_counter() < end:
            for number, event in self.epoll.poll(0.1):
                self._handle(self.connections[number], event)

    def _open(self) -> Connection:
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.connect_ex(self.address)
        if self.context is not None:
            opened = self.context.wrap_socket(
                opened, server_hostname=str(self.server_name), do_handshake_on_connect=False
            )
        connection = Connection(opened)
        self.connections[opened.fileno()] = connection
        self.epoll.register(opened, select.EPOLLIN | select.EPOLLOUT)
        return connection

    def _take(self) -> Connection | None:
        """A connection for the next request; None while all are busy."""
        if self.free:
            return self.free.pop()
        return self._open() if len(self.connections) < self.most else None

    def _handle(self, connection: Connection, event: int) -> None:
        try:
            if connection.ready:
                self._read(connection)
            else:
                self._shake(connection)
        except _WANTS:
            return
        except OSError:
            self._fail(connection)

    def _shake(self, connection: Connection) -> None:
        """Go on with the handshake; send once it is over. Raises OSError, and what asks to wait."""
        error = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, "connect")
        if isinstance(connection.socket, ssl.SSLSocket):
            try:
                connection.socket.do_handshake()
            except ssl.SSLWantReadError:
                self.epoll.modify(connection.socket, select.EPOLLIN)
                raise
        connection.ready = True
        self.epoll.modify(connection.socket, select.EPOLLIN)
        if connection.busy:
            self._send(connection)

    def _send(self, connection: Connection) -> None:
        try:
            connection.socket.send(self.request)  # a GET fits the buffer
        except OSError:
            self._fail(connection)

    def _read(self, connection: Connection) -> None:
        got = connection.socket.recv(_READ_BYTES)
        if not got:
            raise ConnectionResetError
        if not connection.busy:
            return  # a session ticket of TLS is not seen here; anything else is an answer that nobody asked for
        received = connection.received + got if connection.received else got
        length = connection.length
        if length is None:
            length = connection.length = answer_length(received)
        if length is None or (len(received) < length if length >= 0 else not received.endswith(_LAST_CHUNK)):
            connection.received = received
            return
        self._count(connection.due, time.perf_counter(), int(received[9:12]))
        if received[9:10] not in b"23":
            self.found.refused += 1
        closes = not self.keep_alive or b"\r\nconnection: close" in received[: received.index(_END)].lower()
        connection.received, connection.length, connection.busy = b"", None, False
        if closes:
            self._close(connection)
        else:
            self.free.append(connection)

    def _fail(self, connection: Connection) -> None:
        """A connection that closes while it is unused is no failure."""
        if connection.busy:
            self.found.failed += 1
            if self.each:
                self.found.each.append((connection.due - self.found.began, time.perf_counter() - connection.due, 0))
        self._close(connection)

    def _count(self, due: float, end: float, status: int) -> None:
        """A request that was answered, or had no answer until the end."""
        self.times.append(end - due)
        if self.each:
            self.found.each.append((due - self.found.began, end - due, status))

    def _close(self, connection: Connection) -> None:
        del self.connections[connection.socket.fileno()]
        if not connection.busy and connection in self.free:
            self.free.remove(connection)
        connection.socket.close()


def answer_length(received: bytes) -> int | None:
    """Bytes of the whole answer; -1 where it has chunks, None while its head is not complete."""
    end = received.find(_END)
    if end < 0:
        return None
    head = received[:end].lower()
    _, name, rest = head.partition(b"\r\ncontent-length:")
    if name:
        return end + 4 + int(rest.partition(b"\r\n")[0])
    return -1 if b"\r\ntransfer-encoding:" in head else end + 4


def percentiles(times: list[float]) -> dict[str, float]:
    """The 50th, 95th, 99th and 99.9th by nearest rank, and the largest; empty without times."""
    times.sort()
    if not times:
        return {}
    ranks = {each: times[max(0, math.ceil(len(times) * float(each) / 100) - 1)] for each in ("50", "95", "99", "99.9")}
    return {**ranks, "100": times[-1]}


def trusting_context() -> ssl.SSLContext:
    """TLS that accepts any certificate: what is measured is this host."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def main() -> None:
    """Send as the argument says; print the figures."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)  # nanoseconds, instead of 50 microseconds
    generator = Generator(json.loads(sys.argv[1]))
    gc.freeze()
    gc.disable()  # nothing here makes circles
    print(json.dumps(vars(generator.run())))  # noqa: T201


if __name__ == "__main__":
    main()
