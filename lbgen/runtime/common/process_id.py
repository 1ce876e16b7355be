"""The identity of a process: its pid and its start time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A pid with its start time, so that a reused pid is not taken for the process that once had it."""

    pid: int
    started: int  # clock ticks after boot

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """The identity of the living process `pid`; None when there is none, or only its remains. Raises OSError where
        that cannot be seen (no descriptor left), which is not to be taken for its end."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        words = text.rsplit(")", 1)[1].split()
        return None if words[0] in "ZX" else cls(pid, int(words[19]))

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return ProcessId.of(self.pid) == self

    def send(self, number: signal.Signals, *, group: bool = False) -> bool:
        """Signal the process (or its group, which it must lead) if it is still this one; False when it is gone."""
        if not self.alive():
            return False
        try:
            os.killpg(self.pid, number) if group else os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True
