"""The installed engines by their entry points; nothing is loaded."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "lbgen.engines"


@cache
def engine_entries() -> dict[str, EntryPoint]:
    """Entry points by name, of all installed distributions; of two with one name the first counts."""
    return {entry.name: entry for entry in reversed(tuple(entry_points(group=GROUP)))}


@cache
def engine_names() -> tuple[str, ...]:
    """Names of the installed engines, in alphabetical order."""
    return tuple(sorted(engine_entries()))
