"""Regular expressions that equal a plain text, which every engine compares faster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.match import Match

_SPECIAL = frozenset("\\.+*?()|[]{}^$")
_BELOW = re.compile(r"\((?:\?:)?/\.\*\)\?\Z")


def check(context: Context) -> None:
    """LB265: a path, header, query or cookie regex that equals an exact text or a prefix."""
    for index, route in enumerate(context.model.routes):
        for n, match in enumerate(route.match or ()):
            place = f"routes[{index}].match[{n}]"
            if (
                match.path is not None
                and match.path.regex is not None
                and (plain := plain_equivalent(match.path.regex))
            ):
                message = f"{match.path.regex} matches the same as a plain path, which is cheaper"
                context.advise("LB265", f"{place}.path.regex", message, f"write path: {{ {plain} }}")
            for field, regex, text in _values(match):
                context.advise("LB265", f"{place}.{field}", f"{regex} matches one text only", f'write "{text}"')


def _values(match: Match) -> Iterator[tuple[str, str, str]]:
    for key in ("headers", "query", "cookies"):
        for name, value in (getattr(match, key) or {}).items():
            if value.regex is not None and (text := literal_text(_bare(value.regex))):
                yield f"{key}.{name}", value.regex, text


def plain_equivalent(pattern: str) -> str | None:
    """`exact: /a` or `prefix: /a` where that provably matches the same paths; None otherwise.

    An escape in the text is left alone: a regex sees its hex case, an exact path does not.
    """
    pattern = _bare(pattern)
    if pattern in (".*", "/.*"):
        return "prefix: /"
    below = _BELOW.search(pattern)
    text = literal_text(pattern[: below.start()] if below else pattern)
    if not text or not text.startswith("/") or "%" in text or "//" in text:
        return None
    if below is None:
        return f"exact: {text}"
    return f"prefix: {text}" if not text.endswith("/") else None


def _bare(pattern: str) -> str:
    """Without anchors, as a regex matches the whole value."""
    pattern = pattern.removeprefix("^")
    return pattern[:-1] if pattern.endswith("$") and not pattern.endswith("\\$") else pattern


def literal_text(pattern: str) -> str | None:
    """The only text that `pattern` matches; None unless it is plain characters and escaped punctuation."""
    found = ""
    characters = iter(pattern)
    for char in characters:
        if char == "\\":
            char = next(characters, "")
            if not char or char.isalnum() or not char.isascii():
                return None
        elif char in _SPECIAL:
            return None
        found += char
    return found
