"""The identity of a process: its pid and its start time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import signal


class ProcessId(Struct, frozen=True):
    """A pid with its start time, so that a reused pid is not mistaken for the earlier process."""

    pid: int
    started: int  # clock ticks after boot

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Return the identity of the living process `pid`; None when it is gone or a zombie. Raises OSError when that
        cannot be determined (no descriptor left)."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        words = text.rsplit(")", 1)[1].split()
        return None if words[0] in "ZX" else cls(pid, int(words[19]))

    def alive(self) -> bool:
        """Whether this process, and not a later one with its pid, still runs."""
        return ProcessId.of(self.pid) == self

    def send(self, number: signal.Signals, *, group: bool = False) -> bool:
        """Send a signal to the process (or to the group that it leads); False when it is gone."""
        if not self.alive():
            return False
        try:
            os.killpg(self.pid, number) if group else os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True
