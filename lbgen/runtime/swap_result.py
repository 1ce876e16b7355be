"""What replacing an engine cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SwapResult:
    """What clients of our own saw while engine `after` took the place of `before`: `requests` of them that `failed`
    (`first` says how), the longest time in which new connections failed, and `dropped` of `sockets` (WebSockets, TCP
    streams) that they held open. `cut`: connections of `before` that were still open when its time was over.
    `verified` says what was compared first."""

    before: str
    after: str
    requests: int
    failed: int
    first: str
    gap_ms: int
    sockets: int
    dropped: int
    cut: int
    verified: str = ""
