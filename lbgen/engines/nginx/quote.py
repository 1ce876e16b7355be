"""Free text -> nginx parameters that hold exactly that text, by the place it stands in."""

from __future__ import annotations

import re

LONGEST = 3000
"""Bytes of one parameter that are safe: nginx reads its file through a buffer of 4096."""

_SPECIAL_KEYS = frozenset({"default", "hostnames", "include", "volatile"})
_BARE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_./-]*")
_UNSAFE_IN_REGEX = re.compile(r"[^\x20-\x7e]|\"|\\[\\\"']")


def part(text: str) -> str:
    """Inside double quotes where variables are expanded. nginx has no escape for `$`, so a constant stands for it."""
    return _escaped(text).replace("$", "${dollar}")


def word(text: str) -> str:
    """A parameter of its own where nothing is expanded: location paths, default_type."""
    return text if _BARE.fullmatch(text) else f'"{_escaped(text)}"'


def bare(text: str) -> bool:
    """Whether `text` can stand without quotes wherever a parameter can."""
    return _BARE.fullmatch(text) is not None


def key(text: str) -> str:
    """A text that a map looks up."""
    mark = "\\" if text in _SPECIAL_KEYS or text[:1] in ("~", "\\") else ""
    return text if not mark and _BARE.fullmatch(text) else f'"{mark}{_escaped(text)}"'


def regex(text: str) -> str:
    """A regex that a map tries, case-sensitive. ValueError when nginx's own reading of quotes would change it."""
    if _UNSAFE_IN_REGEX.search(text):
        raise ValueError(f"{text!r} does not survive nginx's quoting")
    return f'"~{text}"'


def size(text: str) -> int:
    """Bytes that `part` makes of `text`."""
    return len(part(text).encode())


def pieces(text: str, longest: int = LONGEST) -> tuple[str, ...]:
    """`text` cut so that `part` makes at most `longest` bytes of each piece."""
    if size(text) <= longest:
        return (text,)
    found: list[str] = []
    start = used = 0
    for at, char in enumerate(text):
        more = size(char)
        if used + more > longest:
            found.append(text[start:at])
            start, used = at, 0
        used += more
    return (*found, text[start:])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


QUOTES = {"part": part, "word": word, "key": key, "regex": regex}
