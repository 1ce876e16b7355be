"""Clients of a serving engine: those that attack, that send too much, too slowly or leave, and those that only want an
answer: what these get meanwhile is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.http2_client import Http2Client, raw_frame
from lbgen.conformance.safety.corpus import Attack, Target, new_mark
from lbgen.conformance.safety.endpoint import EARLY, MARK
from lbgen.conformance.transport import transport_for, without_verification
from lbgen.plan.model import Listener, Plan
from lbgen.plan.request import Request

if TYPE_CHECKING:
    from lbgen.conformance.wait_ready import ServingEngine

_ATTACK_SECONDS = 0.6  # one that waits for more bytes is given up
_QUIET_SECONDS = 0.05  # behind an answer no more bytes are expected
_INNOCENT_SECONDS = 4.0
_SIZE = 2 << 20
_SILENT = 50
_UPLOADS = 4
_UPLOAD_SECONDS = 1.0  # an engine may wait for the rest before it answers
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + raw_frame(4, 0, 0, b"")
_SECONDS = 3.0


class Clients(Struct, frozen=True):
    """Clients of the engine at `handle`, which serves `plan`."""

    plan: Plan
    handle: ServingEngine

    def connect(
        self, target: Target, *, client: str = "127.0.0.1", version: str = "1.1", seconds: float
    ) -> ClientConnection:
        """A connection to the target's listener, as that listener expects it. Raises OSError."""
        listener = self.plan.listener(target.listener)
        request = Request(headers=(("Host", target.host),), listener=listener.name, client=client, version=version)
        transport = transport_for(listener, request, without_verification(listener, request))
        return ClientConnection(self.handle.address(listener.name), timeout=seconds, transport=transport)

    def attack(self, attack: Attack) -> bytes:
        """Send an attack over a connection of its own, and return what comes back. Raises OSError."""
        version = "2" if attack.fields else "1.1"
        with self.connect(attack.target, client=attack.client, version=version, seconds=_ATTACK_SECONDS) as stream:
            if attack.fields:
                return _send_http2(stream, attack)
            stream.send(attack.data)
            wait = None
            while stream.read_more(wait):
                wait = _QUIET_SECONDS
            return bytes(stream.buffer)

    def serve_innocent(self, target: Target, times: int = 1) -> Iterator[str]:
        """Send plain requests of another client; what is wrong with their answers."""
        for _ in range(times):
            mark = new_mark()
            try:
                with self.connect(target, seconds=_INNOCENT_SECONDS) as stream:
                    stream.send(f"GET {target.open}/{mark} HTTP/1.1\r\nHost: {target.host}\r\n\r\n".encode())
                    answer = stream.read_answer()
            except OSError as error:
                yield f"another client cannot connect: {error}"
                continue
            marks = {each.decode() for each in MARK.findall(answer.body)}
            if answer.status != 200 or marks != {mark}:
                yield f"another client got {answer.status} {answer.problem} with {marks or 'no mark'}, not {mark}"


def _send_http2(stream: ClientConnection, attack: Attack) -> bytes:
    client = Http2Client(stream)
    fields, trailers = _encoded(attack.fields), _encoded(attack.trailers)
    number = client.send_head(fields, end=not (attack.body or trailers))
    if attack.body:
        client.send_body(number, attack.body, end=not trailers)
    if trailers:
        client.connection.send_headers(number, trailers, end_stream=True)
        client.flush()
    return client.read_answer(number).body


def _encoded(pairs: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


def large_heads(clients: Clients, target: Target) -> Iterator[str]:
    """Heads of 2 MiB, however cut into lines."""
    rest = f" {target.open}/{new_mark()} HTTP/1.1\r\nHost: {target.host}\r\n".encode()
    start, post = b"GET" + rest, b"POST" + rest + b"Transfer-Encoding: chunked\r\n\r\n"
    for data in (
        start + b"X: " + b"a" * _SIZE + b"\r\n\r\n",
        start + b"X-A: 123456\r\n" * (_SIZE // 13) + b"\r\n",
        start + b"".join(b"X-%d: 1\r\n" % each for each in range(1000)) + b"\r\n",
        b"GET /" + b"a" * _SIZE + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        b"A" * _SIZE + b" / HTTP/1.1\r\nHost: h\r\n\r\n",
        start + b"X: " + b"a" * _SIZE,
        b"\r\n" * (_SIZE // 2) + start + b"\r\n",
        post + b"0" * _SIZE,
        post + b"1;" + b"a" * _SIZE,
    ):
        with clients.connect(target, seconds=_SECONDS) as stream:
            stream.send(data)
            yield from clients.serve_innocent(target)


def silent_clients(clients: Clients, target: Target) -> Iterator[str]:
    """Fifty connections that say nothing, or half of something, and stay."""
    post = f"POST {target.open}/{new_mark()} HTTP/1.1\r\nHost: {target.host}\r\nContent-Length: 9\r\n\r\n"
    beginnings = (b"", b"GET / HT", b"\xff\xfe\x00", post.encode())
    with ExitStack() as stack:
        for number in range(_SILENT):
            stream = stack.enter_context(clients.connect(target, seconds=_SECONDS))
            stream.send(beginnings[number % len(beginnings)])
        yield from clients.serve_innocent(target, 20)


def resets(clients: Clients, target: Target) -> Iterator[str]:
    """Clients that leave in the middle of everything."""
    for _ in range(_SILENT):
        head = f"POST {target.open}/{new_mark()} HTTP/1.1\r\nHost: {target.host}\r\nContent-Length: 99\r\n\r\n"
        with clients.connect(target, seconds=_SECONDS) as stream:
            stream.send(head.encode() + b"abc")
    yield from clients.serve_innocent(target, 20)


def short_uploads(clients: Clients, target: Target) -> Iterator[str]:
    """Uploads that an endpoint answers before it has them, and that end short of their Content-Length: the endpoint's
    connection may not be used for others, who would be read as the rest of the body."""
    for number in range(_UPLOADS):
        path, size = f"{target.open}/{new_mark()}{EARLY}", 5_000_000
        if clients.plan.listener(target.listener).http2:
            with clients.connect(target, version="2", seconds=_UPLOAD_SECONDS) as stream:
                client = Http2Client(stream)
                pairs = [(":method", "PUT"), (":scheme", "http"), (":path", path), (":authority", target.host)]
                pairs.append(("content-length", str(size)))
                stream_id = client.send_head(_encoded(pairs), method="PUT", end=False)
                client.connection.send_data(stream_id, b"x" * 1000 * (number % 3))
                client.flush()
                while client.halves[stream_id].status is None and client.receive():
                    pass
                if not client.halves[stream_id].problem:
                    client.connection.send_data(stream_id, b"", end_stream=True)
                    client.flush()
                yield from clients.serve_innocent(target, 5)
        with clients.connect(target, seconds=_UPLOAD_SECONDS) as stream:
            head = f"PUT {path} HTTP/1.1\r\nHost: {target.host}\r\nContent-Length: {size}\r\n\r\n"
            stream.send(head.encode() + b"x" * 1000 * (number % 3))
            stream.read_answer()
        yield from clients.serve_innocent(target, 5)


def _head(target: Target) -> bytes:
    """A GET in HPACK, without entries for its table: static names 4 (:path) and 1 (:authority)."""
    path, host = f"{target.open}/{new_mark()}".encode(), target.host.encode()
    return b"\x82\x86\x04" + bytes([len(path)]) + path + b"\x01" + bytes([len(host)]) + host


def rapid_resets(clients: Clients, target: Target) -> Iterator[str]:
    """2,000 streams of HTTP/2 that are reset at once."""
    head = _head(target)
    with clients.connect(target, version="2", seconds=_SECONDS) as stream:
        stream.send(_PREFACE)
        for first in range(1, 4001, 200):
            numbers = range(first, first + 200, 2)
            stream.send(b"".join(raw_frame(1, 5, n, head) + raw_frame(3, 0, n, (8).to_bytes(4)) for n in numbers))
        yield from clients.serve_innocent(target, 5)


def endless_head(clients: Clients, target: Target) -> Iterator[str]:
    """A head of CONTINUATION frames that does not end."""
    block = raw_frame(9, 0, 1, (b"\x00\x03x-a\x7f\x81\x07" + b"a" * 256) * 20)
    with clients.connect(target, version="2", seconds=_SECONDS) as stream:
        stream.send(_PREFACE + raw_frame(1, 1, 1, _head(target)))
        end = time.monotonic() + 1
        while stream.end == "open" and time.monotonic() < end:
            stream.send(block)
        yield from clients.serve_innocent(target, 5)


Flood = Callable[[Clients, Target], Iterator[str]]
_FLOODS: tuple[Flood, ...] = (short_uploads, large_heads, silent_clients, resets)
_HTTP2_FLOODS: tuple[Flood, ...] = (rapid_resets, endless_head)


def floods(listener: Listener) -> dict[str, Flood]:
    """The floods that a listener can get, by name."""
    return {each.__name__: each for each in (*_FLOODS, *(_HTTP2_FLOODS if listener.http2 else ()))}
