"""Times as people write them."""

from __future__ import annotations


def duration(milliseconds: int) -> str:
    """`60s` or `1500ms`; 0 is Traefik's word for no limit."""
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"
