"""CPU time and memory of process groups, and of the kernel itself, from the kernel."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from lbgen.runtime.common.processes import group_members


def group_cpu(leaders: Iterable[int]) -> float:
    """CPU seconds (user and system) of all processes of these groups until now."""
    return sum(_cpu_seconds(member.pid) for leader in leaders for member in group_members(leader))


def softirq_seconds() -> float:
    """Seconds that all cores together have spent in interrupts until now, where the kernel forwards packets; 0 where it
    does not say. It counts in ticks of a hundredth of a second."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=8)
    except OSError:
        return 0.0
    return (int(words[6]) + int(words[7])) / os.sysconf("SC_CLK_TCK")


def group_memory(leaders: Iterable[int]) -> float:
    """MiB of all processes of these groups; what they share counts once (PSS)."""
    return sum(process_memory(member.pid, "Pss") for leader in leaders for member in group_members(leader))


def _cpu_seconds(pid: int) -> float:
    """The kernel's CPU clock of a process: utime + stime of all its threads, in nanoseconds instead of ticks; 0 once it
    has ended."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def process_memory(pid: int, kind: str) -> float:
    """MiB of a process: Rss, or Pss; 0 where it may not be read, or has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = re.search(rf"^{kind}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) / 1024 if found else 0.0
