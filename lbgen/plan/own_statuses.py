"""Statuses of answers that an engine makes by itself (contract 5.made)."""

from __future__ import annotations

FAILURES = frozenset({502, 503, 504})  # of a failed endpoint: which of them is the engine's habit
MALFORMED = frozenset({400, 405, 408, 414, 431})  # malformed, late or oversized: any 4xx will do


def is_own_status(status: int | None, contract: int) -> bool:
    """Whether an engine's own answer of `status` will do where the contract's table says `contract`."""
    if contract in FAILURES:
        return status in FAILURES
    if contract in MALFORMED:
        return status is not None and status // 100 == 4
    return status == contract
