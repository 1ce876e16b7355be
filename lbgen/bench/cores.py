"""Cores for engines alone, so that generators and endpoint do not take turns with them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lbgen.runtime.common.processes import group_members


def engine_cores() -> frozenset[int]:
    """The second half of the cores that this thread may use; empty where that is one core."""
    cores = sorted(os.sched_getaffinity(0))
    return frozenset(cores[(len(cores) + 1) // 2 :])


@contextmanager
def apart(engines: Iterable[int], others: Iterable[int]) -> Iterator[None]:
    """Keep the groups of `engines` on the engines' cores, and those of `others`, and what this thread starts in the
    block, on the rest. Leaders lead groups of processes; no effect on a single core."""
    every, own = os.sched_getaffinity(0), engine_cores()
    if own:
        _keep(engines, own)
        _keep(others, every - own)
        os.sched_setaffinity(0, every - own)
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def _keep(leaders: Iterable[int], cores: Iterable[int]) -> None:
    """Every thread there is; those that it starts later inherit it."""
    for leader in leaders:
        for member in group_members(leader):
            with suppress(OSError):  # it has ended meanwhile
                for thread in Path(f"/proc/{member.pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), cores)
