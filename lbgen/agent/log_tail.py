"""Reads a log as it grows, and gives back the disk space of what was read."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

_CHUNK = 1 << 18  # bytes read at a time; no engine writes a longer line
_BLOCK = 4096
_LATE_SECONDS = 2.0  # a writer may go on with a file that was moved away until it opens the next one
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # of fallocate(2)


class LogTail:
    """The lines of `path` from byte `at` of the file with the inode `inode` on; any other file is read from its start.

    The file may be missing, moved away or truncated: the next one of its name is read then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inode = 0
        self.at = 0
        self._fd = -1
        self._freed = 0
        self._replaced = 0.0  # when that was seen first

    def read(self) -> bytes:
        """The next complete lines, or nothing. Raises OSError when the file cannot be read."""
        if self._fd < 0 and not self._open():
            return b""
        found = os.pread(self._fd, _CHUNK, self.at)
        end = found.rfind(b"\n") + 1
        if end:
            self.at += end
            return found[:end]
        if len(found) == _CHUNK:  # no line is that long
            self.at += len(found)
            return found
        if not self._was_replaced():
            self._replaced = 0.0
        elif not self._replaced:
            self._replaced = time.monotonic()
        elif time.monotonic() - self._replaced > _LATE_SECONDS:
            self.close()
        return b""

    def free(self) -> bool:
        """Give back the blocks of what was read; the file keeps its size, so that no writer notices. False when the
        file system cannot. Linux: fallocate(2)."""
        end = self.at // _BLOCK * _BLOCK
        if self._fd < 0 or end <= self._freed:
            return True
        size = ctypes.c_int64
        libc = ctypes.CDLL(None)
        mode = _KEEP_SIZE | _PUNCH_HOLE
        if libc.fallocate(self._fd, mode, size(self._freed), size(end - self._freed)):
            return False
        self._freed = end
        return True

    def close(self) -> None:
        """Close the file; the next `read` opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self.inode, self.at, self._replaced = -1, 0, 0, 0.0

    def _open(self) -> bool:
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        found = os.fstat(self._fd)
        if found.st_ino != self.inode or found.st_size < self.at:
            self.inode, self.at = found.st_ino, self._first_data()
        self._freed = 0
        return True

    def _first_data(self) -> int:
        """Where the file begins to hold data: after what an earlier agent freed."""
        try:
            return os.lseek(self._fd, 0, os.SEEK_DATA)
        except OSError:  # ENXIO: there is none
            return os.fstat(self._fd).st_size

    def _was_replaced(self) -> bool:
        """Whether the name belongs to another file now, or the file was truncated."""
        try:
            found = self.path.stat()
        except OSError:
            return False  # moved away, and its writer still appends to it
        return found.st_ino != self.inode or found.st_size < self.at
