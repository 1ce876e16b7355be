"""Protobuf durations."""

from __future__ import annotations


def duration(milliseconds: int) -> str:
    """Milliseconds as a protobuf duration."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds}.{rest:03d}s" if rest else f"{seconds}s"
