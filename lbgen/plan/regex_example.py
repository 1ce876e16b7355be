"""Generates a short text that a regular expression matches, for requests that must reach a rule."""

from __future__ import annotations

from string import printable

from lbgen.plan.regex import matches_whole
from lbgen.regex import Boundary, Chars, Choice, Node, RegexError, Repeat, parse

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
