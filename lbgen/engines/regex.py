"""The tree of a regular expression -> text, with each set of characters written as a place needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from lbgen.regex import BOUNDS, Boundary, Chars, Choice, Node, Repeat, Sequence


def literal(text: str) -> Node:
    """A text as a tree; characters beyond ASCII become their UTF-8 bytes."""
    return Sequence(tuple(Chars(frozenset((byte,))) for byte in text.encode()))


def write(node: Node, chars: Callable[[Chars], str]) -> str:
    """The regex of `node`, each set of characters written by `chars` (as one unit that may be repeated)."""
    match node:
        case Chars():
            return chars(node)
        case Sequence():
            return "".join(
                f"(?:{write(part, chars)})" if isinstance(part, Choice) else write(part, chars) for part in node.parts
            )
        case Choice():
            return "|".join(write(part, chars) for part in node.parts)
        case Repeat():
            inner = write(node.part, chars)
            unit = inner if isinstance(node.part, Chars) else f"(?:{inner})"
            return unit + _times(node.least, node.most)
        case Boundary():
            return r"\B" if node.inside else r"\b"
        case _:
            assert_never(node)


def group(node: Node, chars: Callable[[Chars], str]) -> str:
    """As `write`, fit to stand beside other text."""
    text = write(node, chars)
    return f"(?:{text})" if isinstance(node, Choice) else text


def has_boundary(node: Node) -> bool:
    """Whether `\\b` or `\\B` occurs, which cannot be judged in encoded text."""
    match node:
        case Chars():
            return False
        case Sequence() | Choice():
            return any(has_boundary(part) for part in node.parts)
        case Repeat():
            return has_boundary(node.part)
        case Boundary():
            return True
        case _:
            assert_never(node)


def may_hold(node: Node, char: str) -> bool:
    """Whether a match can hold `char` (ASCII) at all."""
    match node:
        case Chars():
            return ord(char) in node.ascii
        case Sequence() | Choice():
            return any(may_hold(part, char) for part in node.parts)
        case Repeat():
            return may_hold(node.part, char)
        case Boundary():
            return False
        case _:
            assert_never(node)


def _times(least: int, most: int | None) -> str:
    for sign, bounds in BOUNDS.items():
        if bounds == (least, most):
            return sign
    if most is None:
        return f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"
