"""Lines of rendered files: they end at line feeds alone, as the engines and the origins count them."""

from __future__ import annotations


def split_lines(text: str) -> list[str]:
    """Split at line feeds, without an empty line after the last one. `str.splitlines` also splits at U+2028, U+2029,
    U+0085 and others, which are part of a user's free text."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
