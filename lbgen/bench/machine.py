"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from lbgen.version import VERSION


@dataclass(frozen=True, slots=True)
class Machine:
    """The operating system, its cores, and the name of the processor."""

    system: str
    cores: int
    cpu: str
    lbgen: str = VERSION

    @staticmethod
    def this() -> Machine:
        """The one that this process runs on."""
        try:
            found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
        except OSError:
            found = None
        system = f"{platform.system()} {platform.release()} {platform.machine()}"
        return Machine(system, os.cpu_count() or 1, found[1] if found else platform.processor() or "unknown processor")
