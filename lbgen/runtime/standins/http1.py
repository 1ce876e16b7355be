"""The HTTP/1.x side of a stand-in: reads raw requests and answers a JSON account of them, or with a fault."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus

from msgspec import Struct
from msgspec.structs import replace

from lbgen.runtime.standins.accept import ConnectionInfo
from lbgen.runtime.standins.stand_in import Behaviour

_SILENT = ConnectionInfo()
CONTROL = "x-stand-in"  # request header: a JSON object with fields of Behaviour
SEEN = "x-stand-in-saw"  # response header: base64 of the JSON account, where the body does not hold it
NAME = "x-stand-in-name"  # response header on every answer
HEAD_LIMIT = 1 << 20
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_NO_LINGER = struct.pack("ii", 1, 0)

NO_HTTP = ("echo", "mute")
METHODS = b"CDGHOPT"  # what methods begin with; no bytes that a test sends to be sent back do


class Arrival(Struct, frozen=True):
    """A request as it reached the endpoint; text is latin-1, one character per byte. `version` 1.0, 1.1 or 2;
    `scheme` is that of HTTP/2, empty otherwise."""

    method: str
    target: str
    version: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    trailers: tuple[tuple[str, str], ...] = ()
    scheme: str = ""

    def header(self, name: str) -> str | None:
        """All lines of that name joined by ", ", or None."""
        found = [v for n, v in self.headers if n.lower() == name]
        return ", ".join(found) if found else None


class BadRequestError(ValueError):
    """The bytes are no HTTP/1.x request."""


async def read_request(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    begun: Callable[[Arrival], None] = lambda arrival: None,
    more: Callable[[int], None] = lambda count: None,
    first: bytes = b"",
) -> Arrival | None:
    """The next request, or None when the peer has closed; BadRequestError on bytes that are none. `begun` gets
    its head before the body is read, `more` of body bytes as they come; `first` was read before. The preface of HTTP/2
    is a request with the method PRI."""
    try:
        first = first or await reader.read(1)
        if first == b"\x16":
            raise BadRequestError("TLS where none is spoken")
        if not first:
            return None
        head = first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if (first + error.partial).strip():
            raise BadRequestError("the head ends early") from error
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequestError("the head is too long") from error
    lines = head[:-4].lstrip(b"\r\n").decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if parts == ["PRI", "*", "HTTP/2.0"]:
        return Arrival("PRI", "*", "2", (), b"")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequestError(f"request line {lines[0]!r}")
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise BadRequestError(f"header line {line!r}")
        headers.append((name, value.strip(" \t")))
    arrival = Arrival(parts[0], parts[1], parts[2][5:], tuple(headers), b"")
    asked = control_of(arrival)
    if asked is not None and asked.mode == "early":
        begun(arrival)
        return arrival
    if (arrival.header("expect") or "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    begun(arrival)
    if asked is not None and asked.mode == "deaf":
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
        await asyncio.sleep(asked.wait_ms / 1000)
        return None
    body, trailers = await _body(reader, arrival, more)
    return replace(arrival, body=body, trailers=trailers)


async def _exactly(reader: asyncio.StreamReader, count: int, more: Callable[[int], None]) -> bytes:
    """As `readexactly`; `more` is called with each part."""
    got = bytearray()
    while len(got) < count:
        part = await reader.read(count - len(got))
        if not part:
            raise asyncio.IncompleteReadError(bytes(got), count)
        more(len(part))
        got += part
    return bytes(got)


async def _body(
    reader: asyncio.StreamReader, arrival: Arrival, more: Callable[[int], None]
) -> tuple[bytes, tuple[tuple[str, str], ...]]:
    if (arrival.header("transfer-encoding") or "").lower().endswith("chunked"):
        body = bytearray()
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += await _exactly(reader, size, more)
            await reader.readexactly(2)
        trailers = []
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            name, _, value = line[:-2].decode("latin-1").partition(":")
            trailers.append((name, value.strip(" \t")))
        return bytes(body), tuple(trailers)
    length = arrival.header("content-length") or "0"
    if not length.isdigit():
        raise BadRequestError(f"Content-Length {length!r}")
    return await _exactly(reader, int(length), more), ()


def account(name: str, pool: str, arrival: Arrival, hello: ConnectionInfo = _SILENT) -> dict[str, object]:
    """Return the account of a request and its connection, as JSON data."""
    return {
        "name": name,
        "pool": pool,
        "method": arrival.method,
        "target": arrival.target,
        "path": arrival.target.partition("?")[0],
        "version": arrival.version,
        **({"scheme": arrival.scheme} if arrival.scheme else {}),
        "headers": [[n, v] for n, v in arrival.headers],
        "body_length": len(arrival.body),
        "body_sha256": hashlib.sha256(arrival.body).hexdigest(),
        "trailers": [[n, v] for n, v in arrival.trailers],
        "proxy": hello.proxy,
        "tls": hello.tls,
    }


def body_of(how: Behaviour) -> bytes:
    """The body of a fixed answer."""
    body = how.body.encode("latin-1", "replace")
    return (body * (how.size // max(len(body), 1) + 1))[: how.size] if how.size else body


def is_websocket(arrival: Arrival) -> bool:
    """Whether the request is a WebSocket handshake."""
    tokens = (arrival.header("connection") or "").lower().replace(" ", "").split(",")
    asked = (arrival.header("upgrade") or "").lower() == "websocket"
    return asked and "upgrade" in tokens and bool(arrival.header("sec-websocket-key"))


def control_of(arrival: Arrival) -> Behaviour | None:
    """Return the behaviour in the control header, None without one; BadRequestError when it is malformed."""
    asked = arrival.header(CONTROL)
    if asked is None:
        return None
    try:
        return Behaviour.parse(json.loads(asked))
    except ValueError as error:
        raise BadRequestError(f"{CONTROL}: {error}") from error


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()


def _head(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Status"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{n}: {v}" for n, v in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _lines(headers: tuple[tuple[str, str], ...]) -> bytes:
    return "".join(f"{n}: {v}\r\n" for n, v in headers).encode("latin-1")


async def answer(writer: asyncio.StreamWriter, name: str, arrival: Arrival, seen: bytes, how: Behaviour) -> bool:
    """Send the response that `how` describes, with the account `seen`; False when the connection cannot be reused."""
    interim = b"".join(_head(status, ()) for status in how.interim)
    if how.mode != "fixed":
        writer.write(interim)
    named = ((NAME, name),)
    plain = (*named, ("Content-Type", "application/json"))
    sized = (*plain, ("Content-Length", str(len(seen))))
    bodiless = arrival.method == "HEAD" or how.status in (204, 304)
    match how.mode:
        case "close" | "refuse_stream":
            return False
        case "reset":
            reset(writer)
            return False
        case "garbage":
            writer.write(b"\x00\x01 this is not HTTP \r\n\r\n")
            return False
        case "reset_body" | "reset_unframed" | "cut_body" | "stall_body":
            writer.write(_head(200, plain if how.mode == "reset_unframed" else sized) + seen[: len(seen) // 2])
            await writer.drain()
            await asyncio.sleep(how.wait_ms / 1000 if how.mode == "stall_body" else 0.05)
            if how.mode.startswith("reset"):
                reset(writer)
            return False
        case "half_close":
            writer.write(_head(200, (*plain, ("Connection", "close"))) + seen)
            return False
        case "drip":
            writer.write(_head(200, (*plain, ("Transfer-Encoding", "chunked"))))
            step = -(-len(seen) // how.count)
            for at in range(0, len(seen), step):
                await writer.drain()
                await asyncio.sleep(how.wait_ms / 1000)
                part = seen[at : at + step]
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            writer.write(b"0\r\n\r\n")
            return True
        case "early":
            body = body_of(how)
            writer.write(_head(how.status, (*named, ("Content-Length", str(len(body))))) + body)
            await writer.drain()
            await asyncio.sleep(how.wait_ms / 1000)
            return False
        case "fixed":
            body = body_of(how)
            saw = (*named, (SEEN, base64.b64encode(seen).decode()), *how.headers)
            if (how.chunked or how.trailers) and not bodiless:
                last = b"0\r\n" + _lines(how.trailers) + b"\r\n"
                framed = b"%x\r\n%b\r\n%b" % (len(body), body, last) if body else last
                writer.write(interim + _head(how.status, (*saw, ("Transfer-Encoding", "chunked"))) + framed)
            elif how.status in (204, 304):
                writer.write(interim + _head(how.status, saw))
            else:
                head = _head(how.status, (*saw, ("Content-Length", str(len(body)))))
                writer.write(interim + head + (b"" if bodiless else body))
            return True
    if how.mode == "hang":
        await asyncio.sleep(how.wait_ms / 1000)
    if arrival.method == "HEAD":
        writer.write(_head(how.status, (*sized, (SEEN, base64.b64encode(seen).decode()))))
    else:
        writer.write(_head(how.status, sized) + seen)
    return True


async def websocket(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, arrival: Arrival, seen: bytes
) -> None:
    """Complete the WebSocket handshake, then echo messages until a close frame or the end of the connection."""
    key = (arrival.header("sec-websocket-key") or "").encode()
    accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
    saw = base64.b64encode(seen).decode()
    upgrade = (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept))
    writer.write(_head(101, (*upgrade, (NAME, name), (SEEN, saw))))
    while True:
        first, second = await reader.readexactly(2)
        length = second & 0x7F
        if length == 126:
            length = int.from_bytes(await reader.readexactly(2))
        elif length == 127:
            length = int.from_bytes(await reader.readexactly(8))
        mask = await reader.readexactly(4) if second & 0x80 else bytes(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(await reader.readexactly(length)))
        opcode = first & 0x0F
        if opcode == 9:  # ping -> pong
            first = first & 0xF0 | 10
        size = (
            bytes([length])
            if length < 126
            else b"\x7e" + length.to_bytes(2)
            if length < 65536
            else b"\x7f" + length.to_bytes(8)
        )
        writer.write(bytes([first]) + size + data)
        await writer.drain()
        if opcode == 8:
            return
