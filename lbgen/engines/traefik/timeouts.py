"""Times as people write them."""

from __future__ import annotations

FOREVER = "2562047h"  # where 0 is a default: the longest duration that Go accepts


def duration(milliseconds: int) -> str:
    """`60s` or `1500ms`; 0 is Traefik's word for no limit."""
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"
