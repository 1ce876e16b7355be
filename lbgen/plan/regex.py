"""RE2 patterns of a plan: whole-value matching on raw bytes, and the literal text that every match begins with."""

from __future__ import annotations

from functools import lru_cache
from string import printable
from typing import Any

import re2

from lbgen.regex import Boundary, Chars, Choice, Node, RegexError, Repeat, parse

_LONGEST = 256  # bytes of literal text looked for


@lru_cache(maxsize=100_000)
def compile_pattern(pattern: str) -> Any:  # noqa: ANN401  # re2 ships no types
    """The compiled pattern; re2.error when it is not RE2 syntax."""
    return re2.compile(pattern)


def matches_whole(pattern: str, raw: str) -> bool:
    """Whether `pattern` matches the whole of `raw`, a latin-1 text of one character per byte."""
    return compile_pattern(pattern).fullmatch(raw.encode("latin-1")) is not None


@lru_cache(maxsize=100_000)
def literal_start(pattern: str) -> str:
    """The literal text that every whole match of `pattern` begins with; "" when unknown.

    It ends before the first escape, whose hex digits may be in either case, and before the first non-ASCII byte.
    """
    try:
        # RE2 gives the range of all matches; a prefix that both ends share, all matches share.
        least, most = re2.compile(rf"^(?:{pattern})\z").possiblematchrange(_LONGEST)
    except re2.error:
        return ""
    start = ""
    for one, other in zip(least, most, strict=False):
        if one != other or one >= 0x80 or one == ord("%"):
            break
        start += chr(one)
    return start


_PREFERRED = f"a0A-_/.~ {printable}"


def regex_example(pattern: str) -> str | None:
    """Return a text that `pattern` matches as a whole; None when none was found."""
    try:
        texts = (_text(parse(pattern), once) for once in (1, 0))
        return next((text for text in texts if matches_whole(pattern, text)), None)
    except RegexError:
        return None


def _text(node: Node, once: int) -> str:
    """`once` is how often optional parts are repeated."""
    match node:
        case Chars():
            return next((each for each in _PREFERRED if ord(each) in node.ascii), "")
        case Choice():
            return _text(node.parts[0], once)
        case Repeat():
            return _text(node.part, once) * (node.least or (once if node.most is None else min(once, node.most)))
        case Boundary():
            return ""
    return "".join(_text(each, once) for each in node.parts)
