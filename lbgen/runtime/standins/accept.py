"""Accepts connections on a stand-in's port: reads the PROXY header, does the TLS handshake, records both."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from lbgen.agent.proxy_header import SIGNATURE
from lbgen.runtime.standins.stand_in import StandInTls

if TYPE_CHECKING:
    import socket

_V1_LONGEST = 107
_HANDSHAKE_SECONDS = 10.0
_SNI: WeakKeyDictionary[object, str] = WeakKeyDictionary()


class NoProxyHeaderError(ConnectionError):
    """A PROXY header was expected and something else came."""


def tls_context(tls: StandInTls) -> ssl.SSLContext:
    """Raises OSError when a file cannot be read."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(tls.certificate, tls.key)
    if tls.client_ca:
        made.load_verify_locations(tls.client_ca)
        made.verify_mode = ssl.CERT_REQUIRED if tls.client_required else ssl.CERT_OPTIONAL
    if tls.alpn:
        made.set_alpn_protocols(list(tls.alpn))
    made.sni_callback = _remember
    return made


def _remember(shaken: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
    _SNI[shaken] = name or ""


class ConnectionInfo(Struct, frozen=True):
    """PROXY header and TLS handshake of a connection, as JSON data; None where there was none and none was expected."""

    proxy: dict[str, object] | None = None
    tls: dict[str, object] | None = None


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, ConnectionInfo], Awaitable[None]]


class Server:
    """Accepts on a bound socket from its creation in a running event loop until `close`."""

    def __init__(
        self, listening: socket.socket, tls: StandInTls | None, serve: Serve, *, limit: int, proxied: bool
    ) -> None:
        listening.setblocking(False)
        listening.listen(1024)
        self._listening = listening
        self._context = None if tls is None else tls_context(tls)
        self._serve = serve
        self._limit = limit
        self._proxied = proxied
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    async def close(self) -> None:
        """Stop listening; open connections continue. The port is free when this returns."""
        self._accepting.cancel()
        await asyncio.wait([self._accepting])  # until then the loop watches the socket
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except ConnectionError:  # it was gone before it was taken
                continue
            task = asyncio.create_task(self._greet(connection))
            self._tasks.add(task)  # the loop itself keeps only weak references
            task.add_done_callback(self._tasks.discard)

    async def _greet(self, connection: socket.socket) -> None:
        try:
            streams = await _accepted(connection, self._context, self._limit, proxied=self._proxied)
        except OSError:  # no TLS, no PROXY header, or the peer left: it gets nothing
            return
        await self._serve(*streams)


async def _accepted(
    connection: socket.socket, context: ssl.SSLContext | None, limit: int, *, proxied: bool
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, ConnectionInfo]:
    """Streams over an accepted, non-blocking socket; it is closed when this raises (OSError, also of TLS)."""
    loop = asyncio.get_running_loop()
    try:
        proxy = await _proxy_header(loop, connection) if proxied else None
        reader = asyncio.StreamReader(limit, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        seconds = None if context is None else _HANDSHAKE_SECONDS
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=context, ssl_handshake_timeout=seconds
        )
    except BaseException:
        connection.close()
        raise
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    return reader, writer, ConnectionInfo(proxy, _shaken(writer.get_extra_info("ssl_object")))


def _shaken(found: ssl.SSLObject | None) -> dict[str, object] | None:
    if found is None:
        return None
    shown: dict[str, Any] = found.getpeercert() or {}
    subject = dict(pair for part in shown.get("subject", ()) for pair in part)
    return {
        "version": found.version(),
        "alpn": found.selected_alpn_protocol(),
        "sni": _SNI.get(found) or None,
        "client": subject.get("commonName"),
    }


async def _exactly(loop: asyncio.AbstractEventLoop, connection: socket.socket, count: int) -> bytes:
    """Read exactly that many bytes: what follows belongs to TLS or HTTP."""
    got = b""
    while len(got) < count:
        part = await loop.sock_recv(connection, count - len(got))
        if not part:
            raise NoProxyHeaderError(f"the connection ended after {got!r}")
        got += part
    return got


async def _proxy_header(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> dict[str, object]:
    begin = await _exactly(loop, connection, 8)
    if begin == SIGNATURE[:8]:
        begin += await _exactly(loop, connection, 8)
        if begin[:12] != SIGNATURE or begin[12] >> 4 != 2:
            raise NoProxyHeaderError(f"no PROXY v2 header: {begin!r}")
        rest = await _exactly(loop, connection, int.from_bytes(begin[14:16]))
        return _v2(begin[12] & 15, begin[13], rest)
    while not begin.endswith(b"\r\n"):
        if len(begin) > _V1_LONGEST or not b"PROXY TCP4 127.0.0.1".startswith(begin[:6]):
            raise NoProxyHeaderError(f"no PROXY header: {begin!r}")
        begin += await _exactly(loop, connection, 1)
    words = begin[:-2].decode("latin-1").split(" ")
    if len(words) != 6 and words[1:2] != ["UNKNOWN"]:
        raise NoProxyHeaderError(f"no PROXY header: {begin!r}")
    found: dict[str, object] = {"version": 1, "family": words[1]}
    if len(words) == 6:
        found |= {
            "source": words[2],
            "destination": words[3],
            "source_port": int(words[4]),
            "destination_port": int(words[5]),
        }
    return found


def _v2(command: int, family: int, rest: bytes) -> dict[str, object]:
    found: dict[str, object] = {"version": 2, "family": {0x11: "TCP4", 0x21: "TCP6"}.get(family, "UNKNOWN")}
    if command == 0:
        found["family"] = "LOCAL"
    elif family in (0x11, 0x21):
        size = 4 if family == 0x11 else 16
        source, destination = (str(ipaddress.ip_address(rest[i : i + size])) for i in (0, size))
        ports = struct.unpack("!HH", rest[2 * size : 2 * size + 4])
        found |= {"source": source, "destination": destination}
        found |= {"source_port": ports[0], "destination_port": ports[1]}
    return found
