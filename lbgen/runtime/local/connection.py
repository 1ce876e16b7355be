"""Messages over a unix socket: each is JSON with its length in front, and is decoded as the type that is expected."""

from __future__ import annotations

import re
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

from lbgen.runtime.common.saved import DecodeError, decode, encode

if TYPE_CHECKING:
    import socket
    from types import TracebackType

_LENGTH = struct.Struct("!i")  # as multiprocessing.Connection has it: a supervisor of an earlier lbgen answers
_MOST = 1 << 20  # bytes to read at once
_KEY = re.compile(rb'"\w+":')


class Connection:
    """One end of a socket. Errors are OSError, and EOFError where the other end closes it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, message: object) -> None:
        """Send a record or a dataclass, or a tuple of them."""
        self.send_encoded(encode(message, any_text=True))

    def send_encoded(self, content: bytes) -> None:
        """Send what `saved.encode` made."""
        self._socket.sendall(_LENGTH.pack(len(content)) + content)

    def receive(self, kind: Any, seconds: float | None = None) -> Any:  # noqa: ANN401  # a union is no type[T]
        """The next message, a `kind`. Raises DecodeError for one of another lbgen, TimeoutError after `seconds`."""
        self._socket.settimeout(seconds)
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
        content = self._read(size)
        self._socket.settimeout(None)
        message = decode(content, kind)
        # A field that is ignored here is one that the sender wants to have an effect.
        if _fields(encode(message, any_text=True)) != _fields(content):
            raise DecodeError("it has fields of another lbgen")
        return message

    def _read(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            part = self._socket.recv(min(size - len(content), _MOST))
            if not part:
                raise EOFError
            content += part
        return bytes(content)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _fields(content: bytes) -> Counter[bytes]:
    """How often JSON names each field."""
    return Counter(_KEY.findall(content))
