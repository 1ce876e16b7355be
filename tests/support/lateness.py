"""How late this process is given a CPU: what a test may excuse that measures times beside other tests."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP = 0.02  # seconds between two looks
LATE = 0.1  # seconds that a thread of a machine with a free CPU does not wait for it


@dataclass(slots=True)
class Lateness:
    """`worst`: the longest time in seconds that a thread overslept."""

    worst: float = 0.0

    @property
    def is_late(self) -> bool:
        return self.worst > LATE


@contextmanager
def observed_lateness() -> Iterator[Lateness]:
    """Observe it for as long as the block lasts."""
    found, stop = Lateness(), threading.Event()

    def look() -> None:
        while not stop.is_set():
            begun = time.monotonic()
            time.sleep(STEP)
            found.worst = max(found.worst, time.monotonic() - begun - STEP)

    thread = threading.Thread(target=look, name="lateness", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()
