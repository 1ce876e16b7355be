"""A regex of a topology -> a tree of sets of characters, and back into text with each set written as a place needs it.

Characters beyond ASCII are UTF-8, as RE2 reads them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Callable

ASCII = frozenset(range(0x80))
_DIGIT = frozenset(b"0123456789")
_LOWER = frozenset(b"abcdefghijklmnopqrstuvwxyz")
_UPPER = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
ALNUM = _DIGIT | _LOWER | _UPPER
_WORD = ALNUM | frozenset(b"_")
_CLASSES = {"d": _DIGIT, "w": _WORD}
_POSIX = {
    "alnum": ALNUM,
    "alpha": _LOWER | _UPPER,
    "blank": frozenset(b" \t"),
    "digit": _DIGIT,
    "lower": _LOWER,
    "punct": frozenset(range(0x21, 0x7F)) - ALNUM,
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGIT | frozenset(b"abcdefABCDEF"),
}
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12}
_REPEAT = re.compile(r"([*+?]|\{([0-9]+)(,?)([0-9]*)\})(\??)")
_BOUNDS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@record
class Chars:
    """One character out of a set. `beyond`: also any character beyond ASCII."""

    ascii: frozenset[int]
    beyond: bool = False


@record
class Sequence:
    parts: tuple[Node, ...]


@record
class Choice:
    parts: tuple[Node, ...]


@record
class Repeat:
    """`most` None = without end."""

    part: Node
    least: int
    most: int | None


@record
class Boundary:
    """`\\b`, or `\\B` when `inside`."""

    inside: bool


Node = Chars | Sequence | Choice | Repeat | Boundary


@lru_cache(maxsize=4096)
def parse(pattern: str) -> Node:
    """A regex of a topology (the subset that the spec lets through) as a tree; ValueError when it is none."""
    return _Reader(pattern).read()


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
    for sign, bounds in _BOUNDS.items():
        if bounds == (least, most):
            return sign
    if most is None:
        return f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


class _Reader:
    """Recursive descent over one pattern; `at` is the place that is read next."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def read(self) -> Node:
        fold = self.taken("(?i)")
        node = self.choice(fold)
        if self.at != len(self.pattern):
            raise ValueError(f"{self.pattern!r} is no portable regex at {self.at}")
        return node

    def taken(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def next(self) -> str:
        char = self.peek()
        if not char:
            raise ValueError(f"{self.pattern!r} ends too early")
        self.at += 1
        return char

    def choice(self, fold: bool) -> Node:
        parts = [self.sequence(fold)]
        while self.taken("|"):
            parts.append(self.sequence(fold))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self, fold: bool) -> Node:
        parts: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            if self.taken("^") or self.taken("$"):
                continue  # at the ends of an alternative, where a whole match begins and ends anyway
            parts.append(self.repeated(self.atom(fold)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self, node: Node) -> Node:
        while found := _REPEAT.match(self.pattern, self.at):
            self.at = found.end()
            if found[1] in _BOUNDS:
                least, most = _BOUNDS[found[1]]
            else:
                least = int(found[2])
                most = (int(found[4]) if found[4] else None) if found[3] else least
            node = Repeat(node, least, most)
        return node

    def atom(self, fold: bool) -> Node:
        char = self.next()
        if char == "(":
            if self.taken("?i:"):
                fold = True
            else:
                self.taken("?:")
            inner = self.choice(fold)
            if not self.taken(")"):
                raise ValueError(f"{self.pattern!r} lacks a )")
            return inner
        if char == "[":
            return self.bracket(fold)
        if char == ".":
            return Chars(ASCII - {10}, beyond=True)
        if char == "\\" and self.peek() in ("b", "B"):
            return Boundary(inside=self.next() == "B")
        found = self.escape() if char == "\\" else Chars(frozenset((ord(char),)))
        return _folded(found) if fold else found

    def escape(self) -> Chars:
        char = self.next()
        if char in _CLASSES:
            return Chars(_CLASSES[char])
        if char.lower() in _CLASSES:
            return Chars(ASCII - _CLASSES[char.lower()], beyond=True)
        if char == "x":
            return Chars(frozenset((int(self.next() + self.next(), 16),)))
        return Chars(frozenset((_CONTROLS.get(char, ord(char)),)))

    def bracket(self, fold: bool) -> Chars:
        negated = self.taken("^")
        members: frozenset[int] = frozenset()
        beyond = False
        while not self.taken("]"):
            found = self.element()
            if len(found.ascii) == 1 and self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] != "]":
                self.next()
                found = Chars(frozenset(range(min(found.ascii), max(self.element().ascii) + 1)))
            members |= found.ascii
            beyond |= found.beyond
        found = _folded(Chars(members, beyond)) if fold else Chars(members, beyond)
        return Chars(ASCII - found.ascii, not beyond) if negated else found

    def element(self) -> Chars:
        char = self.next()
        if char == "\\":
            return self.escape()
        if char == "[" and self.peek() == ":":
            end = self.pattern.index(":]", self.at)
            name = self.pattern[self.at + 1 : end]
            self.at = end + 2
            return Chars(_POSIX[name])
        return Chars(frozenset((ord(char),)))


def _folded(found: Chars) -> Chars:
    text = bytes(found.ascii)
    return Chars(found.ascii | frozenset(text.lower()) | frozenset(text.upper()), found.beyond)
