"""HTTP/1 client of the cases: sends exact bytes and parses the answer strictly."""

from __future__ import annotations

import os
import socket
import ssl
import time
from contextlib import suppress
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.transport import PLAIN, Handshake, HandshakeError, Transport, handshake_of
from lbgen.plan.request import Headers, Request
from lbgen.runtime.local.network import reaches

Address = tuple[str, int]
TIMEOUT = 6.0  # seconds for one exchange
_CHUNK = 16_384
_GRACE = 0.03  # seconds in which bytes behind a finished answer would have come


class MalformedAnswerError(ValueError):
    """The bytes that came are no HTTP/1.x answer."""


class Answer(Struct, frozen=True):
    """An answer. `status` None: no valid answer came; `problem` says what came instead.

    `complete`: the body ended as its framing says. `after` is what the connection did then: open, closed or reset.
    `elapsed` is seconds from the first byte sent. Header names are in lower case. `handshake` is set with TLS.
    """

    status: int | None = None
    phrase: str = ""
    version: str = ""
    headers: Headers = ()
    body: bytes = b""
    complete: bool = False
    after: str = "open"
    problem: str = ""
    interim: tuple[int, ...] = ()
    elapsed: float = 0.0
    raw: bytes = b""
    trailers: Headers = ()
    handshake: Handshake | None = None

    def lines(self, name: str) -> tuple[str, ...]:
        """The values of that header (lower case), one per line."""
        return tuple(v for n, v in self.headers if n == name)

    def header(self, name: str) -> str | None:
        """All lines of that header joined by ", ", or None."""
        found = self.lines(name)
        return ", ".join(found) if found else None


class ClientConnection:
    """A TCP connection with one deadline over everything, a context manager. `end` says how the peer ended it.

    `transport` is what comes before HTTP; HandshakeError when the server refuses the handshake.
    """

    def __init__(
        self, address: Address, *, client: str = "", timeout: float = TIMEOUT, transport: Transport = PLAIN
    ) -> None:
        self.begun = time.monotonic()
        self.deadline = self.begun + timeout
        self.buffer = bytearray()
        self.trailers: list[tuple[str, str]] = []
        self.end = "open"
        # From this host to this host only; in an isolated network (runtime/local) every address is ours.
        local = reaches(client, address[0]) and (":" in client) == (":" in address[0])
        source = (client, 0) if client and local and client != address[0] and not transport.proxy else None
        self.secure = transport.tls is not None
        self.handshake: Handshake | None = None
        self.sock = socket.create_connection(address, timeout=timeout, source_address=source)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if transport.proxy:
                self.sock.sendall(transport.proxy)
            if transport.tls is not None:
                secured = transport.tls.wrap(self.sock)
                self.sock, self.handshake = secured, handshake_of(secured)
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> ClientConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send; a closed connection sets `end`."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.end = "reset"

    def ask(self, request: Request) -> Answer:
        """Send `request` and read its answer."""
        self.send(serialize(request))
        return self.read_answer(request.method)

    def shutdown_write(self) -> None:
        """Shut down the sending side; a closed connection is ignored."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def read_more(self, wait: float | None = None) -> bool:
        """Read some more; False at the end or when `wait` seconds (default: the deadline) are over."""
        left = self.deadline - time.monotonic()
        self.sock.settimeout(max(0.001, left if wait is None else min(wait, left)))
        try:
            part = self.sock.recv(262144)
        except TimeoutError:
            return False
        except (ConnectionError, ssl.SSLError):  # TLS: an alert, such as for a client's certificate
            self.end = "reset"
            return False
        if not part:
            if self.end == "open":
                self.end = "closed"
            return False
        self.buffer += part
        return True

    def read_until(self, mark: bytes) -> bytes | None:
        """Bytes up to and with `mark`, or None when they do not come."""
        while (at := self.buffer.find(mark)) < 0:
            if not self.read_more():
                return None
        return self.take(at + len(mark))

    def read_exactly(self, count: int) -> bytes | None:
        """`count` bytes, or None when they do not come."""
        while len(self.buffer) < count:
            if not self.read_more():
                return None
        return self.take(count)

    def take(self, count: int) -> bytes:
        """The first `count` bytes of what was read."""
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def read_to_end(self) -> bytes:
        """Everything until the peer ends or the deadline."""
        while self.read_more():
            pass
        return self.take(len(self.buffer))

    def read_answer(self, method: str = "GET") -> Answer:
        """The next answer (1xx but 101 are collected in `interim`), judged strictly; malformed bytes raise nothing."""
        interim: list[int] = []
        seen = bytearray()
        try:
            while True:
                head = self.read_until(b"\r\n\r\n")
                if head is None:
                    seen += self.buffer
                    problem = f"no answer head ({self.end})" if not seen else f"half an answer head ({self.end})"
                    return self._made(problem=problem, interim=interim, raw=seen)
                seen += head
                version, status, phrase, headers = parse_head(head)
                if status >= 200 or status == 101:
                    break
                interim.append(status)
            body, complete = self._body(method, status, headers)
        except MalformedAnswerError as error:
            return self._made(problem=str(error), interim=interim, raw=seen + self.buffer)
        problem = "" if complete else f"the body does not end as its framing says ({self.end})"
        if status != 101 and (method == "HEAD" or status in (204, 304)) and (self.buffer or self.read_more(_GRACE)):
            problem = "bytes after an answer that has no body"
        made = self._made(problem=problem, interim=interim, raw=seen + body)
        return replace(
            made,
            status=status,
            phrase=phrase,
            version=version,
            headers=headers,
            body=body,
            complete=complete,
            trailers=tuple(self.trailers),
        )

    def _made(self, *, problem: str, interim: list[int], raw: bytes | bytearray) -> Answer:
        return Answer(
            after=self.end,
            problem=problem,
            interim=tuple(interim),
            elapsed=time.monotonic() - self.begun,
            raw=bytes(raw),
            handshake=self.handshake,
        )

    def _body(self, method: str, status: int, headers: Headers) -> tuple[bytes, bool]:
        if method == "HEAD" or status in (101, 204, 304):
            return b"", True
        codings = [v.lower() for n, v in headers if n == "transfer-encoding"]
        lengths = [v for n, v in headers if n == "content-length"]
        if codings:
            if codings != ["chunked"] or lengths:
                raise MalformedAnswerError(f"framing: transfer-encoding {codings}, content-length {lengths}")
            return self._chunks()
        if lengths:
            if len(set(lengths)) > 1 or not lengths[0].isdigit():
                raise MalformedAnswerError(f"framing: content-length {lengths}")
            found = self.read_exactly(int(lengths[0]))
            return (self.take(len(self.buffer)), False) if found is None else (found, True)
        return self.read_to_end(), self.end == "closed"

    def _chunks(self) -> tuple[bytes, bool]:
        body = bytearray()
        self.trailers = []
        while True:
            line = self.read_until(b"\r\n")
            if line is None:
                return bytes(body + self.buffer), False
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError as error:
                raise MalformedAnswerError(f"chunk size {line!r}") from error
            if not size:
                break
            part = self.read_exactly(size + 2)
            if part is None:
                return bytes(body + self.buffer), False
            body += part[:-2]
        while (line := self.read_until(b"\r\n")) not in (b"\r\n", None):
            name, colon, value = line[:-2].decode("latin-1").partition(":")
            if not colon:
                raise MalformedAnswerError(f"trailer line {line!r}")
            self.trailers.append((name.lower(), value.strip(" \t")))
        return bytes(body), line is not None


def parse_head(head: bytes) -> tuple[str, int, str, Headers]:
    """Version, status, phrase and headers of an answer head; MalformedAnswerError on anything but strict HTTP/1.x."""
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    parts = first.split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or len(parts[1]) != 3 or not parts[1].isdigit():
        raise MalformedAnswerError(f"status line {first!r}")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
            raise MalformedAnswerError(f"header line {line!r}")
        headers.append((name.lower(), value.strip(" \t")))
    return parts[0][5:], int(parts[1]), parts[2] if len(parts) > 2 else "", tuple(headers)


@cache
def filler(size: int) -> bytes:
    """`size` bytes without short repetitions."""
    return "".join(map("%07d\n".__mod__, range(-(-size // 8)))).encode()[:size]


def serialize(request: Request) -> bytes:
    """The bytes of `request`; Content-Length is added for a body that no header frames, and a chunked one is cut into
    chunks of 16 KiB."""
    headers, body = request.headers, request.body
    names = {n.lower() for n, _ in headers}
    if any(n.lower() == "transfer-encoding" and v == "chunked" for n, v in headers):
        parts = [body[at : at + _CHUNK] for at in range(0, len(body), _CHUNK)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [*parts, b""])
    elif request.body and not names & {"content-length", "transfer-encoding"}:
        headers = (*headers, ("Content-Length", str(len(request.body))))
    lines = [f"{request.method} {request.target} HTTP/{request.version}", *(f"{n}: {v}" for n, v in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def exchange(
    address: Address,
    *parts: bytes | float,
    method: str = "GET",
    client: str = "",
    timeout: float = TIMEOUT,
    transport: Transport = PLAIN,
) -> Answer:
    """Send bytes over a connection of its own and read one answer. Pauses (seconds) between them are cut short by an
    answer or the end. `client` is the loopback address to come from."""
    try:
        with ClientConnection(address, client=client, timeout=timeout, transport=transport) as stream:
            for part in parts:
                if isinstance(part, bytes):
                    stream.send(part)
                elif stream.read_more(part) or stream.end != "open":
                    break
            return stream.read_answer(method)
    except OSError as error:
        return connection_failure(address, error)


def connection_failure(address: Address, error: OSError) -> Answer:
    """The answer of a failed connection: `closed` by the server in the handshake, or `reset` by the kernel."""
    if isinstance(error, HandshakeError):
        return Answer(problem=str(error), after="closed")
    after = "reset" if isinstance(error, ConnectionRefusedError) else "open"
    return Answer(problem=f"cannot connect to {address[0]}:{address[1]}: {error}", after=after)


def fetch(address: Address, request: Request, *, timeout: float = TIMEOUT, transport: Transport = PLAIN) -> Answer:
    """Send `request` over a connection of its own and read the answer."""
    data, method, client = serialize(request), request.method, request.client
    return exchange(address, data, method=method, client=client, timeout=timeout, transport=transport)


def websocket_exchange(
    address: Address, request: Request, messages: tuple[bytes, ...], *, transport: Transport = PLAIN
) -> tuple[Answer, tuple[bytes, ...]]:
    """Send `request`, a WebSocket handshake, then each message; the answer to the handshake and the echoes."""
    try:
        with ClientConnection(address, client=request.client, transport=transport) as stream:
            answer = stream.ask(request)
            return answer, tuple(
                websocket_echo(stream, message) for message in messages
            ) if answer.status == 101 else ()
    except OSError as error:
        return connection_failure(address, error), ()


def websocket_echo(stream: ClientConnection, message: bytes) -> bytes:
    """Send a WebSocket text message of at most 125 bytes and read the one that comes back; empty when none does."""
    mask = os.urandom(4)
    stream.send(bytes([0x81, 0x80 | len(message)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(message)))
    start = stream.read_exactly(2)
    return b"" if start is None else stream.read_exactly(start[1] & 0x7F) or b""
