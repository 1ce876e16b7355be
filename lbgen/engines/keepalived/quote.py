"""Texts of a topology in keepalived.conf: in double quotes, of characters that its parser leaves alone there."""

from __future__ import annotations

import re

# Without `"` and `\`, which end or escape, `$`, which begins a parameter, and `~`, `!`, `#` and `@`, which begin
# sequences, comments and conditions.
_HELD = re.compile(r"[A-Za-z0-9/._?&=%:;,+*()'-]*")


def can_hold(text: str) -> bool:
    """Whether `text` can be written."""
    return _HELD.fullmatch(text) is not None


def word(text: str) -> str:
    """`text` in quotes; ValueError when it cannot be written."""
    if not can_hold(text):
        raise ValueError(f"{text!r} cannot be written in keepalived.conf")
    return f'"{text}"'
