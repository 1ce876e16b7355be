"""The unix socket in a stack's folder through which commands reach its supervisor."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EMFILE, ENFILE
from pathlib import Path

from lbgen.runtime.local.connection import Connection

_NAME = "control"


class ControlSocket:
    """The supervisor's side. The folder is 0700, so only the user can connect. A socket left by a supervisor that died
    is replaced."""

    def __init__(self, folder: Path, name: str = _NAME) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        (folder / name).unlink(missing_ok=True)
        with _short(folder, name) as path:
            self._socket.bind(path)
        self._socket.listen(4)
        self._reserve: int | None = _spare()

    def wait(self, seconds: float) -> Connection | None:
        """The next connection; None when there is none within `seconds`."""
        ready, _, _ = select.select([self._socket], [], [], seconds)
        if self._reserve is None:
            with suppress(OSError):
                self._reserve = _spare()
        if not ready:
            return None
        try:
            caller, _ = self._socket.accept()
        except OSError as error:
            if error.errno not in (EMFILE, ENFILE) or self._reserve is None:
                raise
            os.close(self._reserve)  # so that the caller gets an answer
            self._reserve = None
            caller, _ = self._socket.accept()
        return Connection(caller)

    def close(self) -> None:
        """Accept no more connections."""
        self._socket.close()
        if self._reserve is not None:
            os.close(self._reserve)


def _spare() -> int:
    """A spare descriptor, to be closed when there is no other one."""
    return os.open(os.devnull, os.O_RDONLY)


def connect(folder: Path, name: str = _NAME) -> Connection:
    """A connection to the supervisor of the stack in `folder`. Raises OSError when none listens."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(folder, name) as path:
            client.connect(path)
    except OSError:
        client.close()
        raise
    return Connection(client)


@contextmanager
def _short(folder: Path, name: str) -> Iterator[str]:
    """A short path of the socket: the kernel allows 107 characters."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
