"""What a process that lbgen starts is known by: the program that executes it, and the exit status with which it ends.

Apart from `spawn`, so that commands which start nothing need not import what starts processes.
"""

from __future__ import annotations

import signal
from pathlib import Path

EXEC_WRAPPER = Path(__file__).with_name("exec_wrapper.py")
UNKNOWN_STATUS = 1 << 16  # of a process that is not our child
KILLED = "run the command again; where the kernel ended it (dmesg), free some memory first"


def how_ended(code: int) -> str:
    """A phrase for that exit status."""
    if code == UNKNOWN_STATUS:
        return "ended"
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
