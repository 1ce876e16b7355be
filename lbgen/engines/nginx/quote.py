"""Quoting of free text as nginx parameters, one function per kind of place."""

from __future__ import annotations

import re

MAX_LENGTH = 3000
"""Bytes of one parameter; nginx reads its file through a buffer of 4096."""

_SPECIAL_KEYS = frozenset({"default", "hostnames", "include", "volatile"})
_BARE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_./-]*")
_UNSAFE_IN_REGEX = re.compile(r"[^\x20-\x7e]|\"|\\[\\\"']")


def part(text: str) -> str:
    """Inside double quotes where variables are expanded; the variable `$dollar` replaces `$`, which has no escape."""
    return _escaped(text).replace("$", "${dollar}")


def word(text: str) -> str:
    """A parameter where nothing is expanded: paths of locations, default_type."""
    return text if _BARE.fullmatch(text) else f'"{_escaped(text)}"'


def is_bare(text: str) -> bool:
    """Whether `text` needs no quotes in any place."""
    return _BARE.fullmatch(text) is not None


def key(text: str) -> str:
    """A key that a map compares as text."""
    mark = "\\" if text in _SPECIAL_KEYS or text[:1] in ("~", "\\") else ""
    return text if not mark and _BARE.fullmatch(text) else f'"{mark}{_escaped(text)}"'


def regex(text: str) -> str:
    """A case-sensitive regex of a map. ValueError when nginx's quoting would change it."""
    if _UNSAFE_IN_REGEX.search(text):
        raise ValueError(f"{text!r} does not survive nginx's quoting")
    return f'"~{text}"'


def size(text: str) -> int:
    """The bytes of `part(text)`."""
    return len(part(text).encode())


def pieces(text: str, limit: int = MAX_LENGTH) -> tuple[str, ...]:
    """`text` in pieces of at most `limit` bytes each after `part`."""
    if size(text) <= limit:
        return (text,)
    out: list[str] = []
    start = used = 0
    for at, char in enumerate(text):
        more = size(char)
        if used + more > limit:
            out.append(text[start:at])
            start, used = at, 0
        used += more
    return (*out, text[start:])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


QUOTES = {"part": part, "word": word, "key": key, "regex": regex}
