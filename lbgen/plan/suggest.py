"""A name that is not there and those that are -> the words that help."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST = 8


def instead(name: str, known: Iterable[str]) -> str:
    """`did you mean "web"?`, or the list of what there is, or that there is none."""
    names = tuple(known)
    if close := get_close_matches(name, names, n=1):
        return f'did you mean "{close[0]}"?'
    if not names:
        return "there is none"
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"there is {', '.join(names[:_MOST])}{more}"
