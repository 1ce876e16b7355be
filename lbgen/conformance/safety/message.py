"""Reads a request as an endpoint gets it, so strictly that two servers cannot read it in two ways."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from lbgen.plan.request import Headers

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_LINE = re.compile(rb"(%b) ([!-~]+) HTTP/(1\.[01])" % _TOKEN)
_FIELD = re.compile(rb"(%b):[ \t]*([^\x00\r\n]*)" % _TOKEN)  # RFC 9110 5.5 lets other controls pass
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\x00\r\n]*)?\r\n")
_LONGEST = 1 << 20  # bytes of a body that are read at once


class AmbiguousError(ValueError):
    """The bytes can be read in two ways; says how."""


class Message(Struct, frozen=True):
    """The head of a request; text is latin-1, names in lower case. `length` of its body, None = chunked."""

    method: str
    target: str
    headers: Headers
    length: int | None

    def lines(self, name: str) -> list[str]:
        """The values of all lines of that lower-case name."""
        return [value for found, value in self.headers if found == name]


def parse_head(head: bytes) -> Message:
    """The message of a head that ends with an empty line. Raises AmbiguousError."""
    first, *lines = head[:-4].split(b"\r\n")
    request = _LINE.fullmatch(first)
    if request is None:
        raise AmbiguousError(f"request line {first[:120]!r}")
    headers = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise AmbiguousError(f"header line {line[:120]!r}")
        headers.append((field[1].decode().lower(), field[2].decode("latin-1").strip(" \t")))
    message = Message(request[1].decode(), request[2].decode(), tuple(headers), 0)
    if len(message.lines("host")) != 1 and request[3] == b"1.1":
        raise AmbiguousError(f"{len(message.lines('host'))} Host lines")
    lengths, codings = message.lines("content-length"), message.lines("transfer-encoding")
    if len(lengths) + len(codings) > 1:
        raise AmbiguousError(f"Content-Length {lengths}, Transfer-Encoding {codings}")
    if codings and codings[0].lower() != "chunked":
        raise AmbiguousError(f"Transfer-Encoding {codings[0]!r}")
    if lengths and not re.fullmatch("[0-9]{1,18}", lengths[0]):
        raise AmbiguousError(f"Content-Length {lengths[0]!r}")
    length = None if codings else int(lengths[0]) if lengths else 0
    return Message(message.method, message.target, message.headers, length)


async def read_body(reader: asyncio.StreamReader, length: int | None, body: bytearray) -> None:
    """Append the body to `body` as it comes. Raises AmbiguousError, IncompleteReadError where it ends early."""
    if length is not None:
        await _append(reader, length, body)
        return
    while True:
        size = _SIZE.fullmatch(line := await reader.readuntil(b"\r\n"))
        if size is None:
            raise AmbiguousError(f"chunk size {line[:120]!r}")
        if not int(size[1], 16):
            break
        await _append(reader, int(size[1], 16), body)
        if (end := await reader.readexactly(2)) != b"\r\n":
            raise AmbiguousError(f"{end!r} after a chunk")
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        if (
            _FIELD.fullmatch(line[:-2].lstrip(b" \t")) is None
        ):  # folded: the body ends alike, and no rule reads trailers
            raise AmbiguousError(f"trailer line {line[:120]!r}")
        body += line  # whose marks count too


async def _append(reader: asyncio.StreamReader, count: int, body: bytearray) -> None:
    while count:
        part = await reader.read(min(count, _LONGEST))
        if not part:
            raise asyncio.IncompleteReadError(b"", count)
        body += part
        count -= len(part)
