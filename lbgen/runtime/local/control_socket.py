"""The door of a running stack: a socket in its folder, by which a later command speaks to its supervisor."""

from __future__ import annotations

import os
import select
import socket
from contextlib import contextmanager, suppress
from errno import EMFILE, ENFILE
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = "control"


class ControlSocket:
    """The supervisor's side. Only the user can enter the folder, which is 0700. What a supervisor that died left in
    its place is removed."""

    def __init__(self, folder: Path, name: str = _NAME) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        (folder / name).unlink(missing_ok=True)
        with _short(folder, name) as path:
            self._socket.bind(path)
        self._socket.listen(4)
        self._reserve: int | None = _spare()

    def wait(self, seconds: float) -> Connection | None:
        """Somebody who came, None when nobody did for so long."""
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
            os.close(self._reserve)  # so that the caller is at least told
            self._reserve = None
            caller, _ = self._socket.accept()
        return Connection(caller.detach())

    def close(self) -> None:
        """Let nobody in any more."""
        self._socket.close()
        if self._reserve is not None:
            os.close(self._reserve)


def _spare() -> int:
    """A descriptor that can be given up."""
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
    return Connection(client.detach())


@contextmanager
def _short(folder: Path, name: str) -> Iterator[str]:
    """The socket's path in few characters: the kernel takes 107."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
