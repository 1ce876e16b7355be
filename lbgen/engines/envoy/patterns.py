"""A portable regex -> a tree of character sets, and back into RE2 with every character set written in another way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from collections.abc import Callable

ASCII = frozenset(range(128))
_DIGIT = frozenset(b"0123456789")
_LOWER = frozenset(range(ord("a"), ord("z") + 1))
_UPPER = frozenset(range(ord("A"), ord("Z") + 1))
_WORD = _DIGIT | _LOWER | _UPPER | {ord("_")}
_PUNCT = frozenset(range(0x21, 0x7F)) - _DIGIT - _LOWER - _UPPER
_POSIX = {
    "alnum": _DIGIT | _LOWER | _UPPER,
    "alpha": _LOWER | _UPPER,
    "blank": frozenset(b" \t"),
    "digit": _DIGIT,
    "lower": _LOWER,
    "punct": _PUNCT,
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": frozenset(b"0123456789abcdefABCDEF"),
}
_CONTROL = {"t": 9, "n": 10, "r": 13, "f": 12}
_REPEAT = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_POSIX_NAME = re.compile(r"\[:([a-z]+):\]")


@dataclass(frozen=True, slots=True)
class Chars:
    """One character: any of `ascii`, and any beyond ASCII when `beyond`."""

    ascii: frozenset[int]
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """`\\b` or `\\B`."""

    text: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """`node` repeated as `suffix` says."""

    node: Node
    suffix: str


@dataclass(frozen=True, slots=True)
class Seq:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    branches: tuple[Node, ...]


Node = Chars | Edge | Repeat | Seq | Alt


def parse(pattern: str) -> Node:
    """The tree of a regex of lbgen's portable subset, without its anchors; ValueError outside that subset."""
    reader = _Reader(pattern)
    node = reader.alternatives(fold=False)
    if reader.at < len(pattern):
        raise ValueError(f"{pattern!r}: unbalanced parenthesis")
    return node


def write(node: Node, chars: Callable[[Chars], str]) -> str:
    """`node` as RE2, each character set as `chars` writes it (one unit that may be repeated)."""
    match node:
        case Chars():
            return chars(node)
        case Edge():
            return node.text
        case Repeat():
            return f"(?:{write(node.node, chars)}){node.suffix}"
        case Seq():
            return "".join(write(each, chars) for each in node.nodes)
        case Alt():
            return "(?:" + "|".join(write(each, chars) for each in node.branches) + ")"
        case _:
            assert_never(node)


def has_edges(node: Node) -> bool:
    """Whether the tree holds a `\\b` or `\\B`."""
    match node:
        case Chars():
            return False
        case Edge():
            return True
        case Repeat():
            return has_edges(node.node)
        case Seq():
            return any(has_edges(each) for each in node.nodes)
        case Alt():
            return any(has_edges(each) for each in node.branches)
        case _:
            assert_never(node)


def char_class(chars: Chars) -> str:
    """`chars` as one RE2 class."""
    if not chars.ascii and not chars.beyond:
        return r"[^\x00-\x{10FFFF}]"
    beyond = r"\x{80}-\x{10FFFF}" if chars.beyond else ""
    return f"[{ranges(chars.ascii)}{beyond}]"


def ranges(codes: frozenset[int]) -> str:
    """The inside of a class for these ASCII codes."""
    found: list[str] = []
    last = -2
    start = -2
    for code in [*sorted(codes), -1]:
        if code != last + 1 or code == -1:
            if start >= 0:
                found.append(_code(start) if start == last else f"{_code(start)}-{_code(last)}")
            start = code
        last = code
    return "".join(found)


def literal(text: str) -> str:
    """A pattern for exactly this text."""
    return re.sub(r"[^A-Za-z0-9_\x80-\U0010ffff]", lambda m: f"\\x{ord(m[0]):02x}" if m[0] < " " else f"\\{m[0]}", text)


def _code(code: int) -> str:
    char = chr(code)
    return char if char.isalnum() else f"\\x{code:02x}"


class _Reader:
    """Reads a pattern that passed lbgen's own check of regexes; `at` is the next place."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def alternatives(self, fold: bool) -> Node:
        fold = self.take("(?i)") or fold
        branches = [self.sequence(fold)]
        while self.take("|"):
            branches.append(self.sequence(fold))
        return branches[0] if len(branches) == 1 else Alt(tuple(branches))

    def sequence(self, fold: bool) -> Node:
        nodes: list[Node] = []
        while self.at < len(self.pattern) and not self.peek("|") and not self.peek(")"):
            # A regex matches the whole value anyway, so its anchors say nothing.
            if self.take("^") or self.take("$"):
                continue
            node = self.atom(fold)
            if repeat := _REPEAT.match(self.pattern, self.at):
                self.at = repeat.end()
                node = Repeat(node, repeat[0])
            nodes.append(node)
        return nodes[0] if len(nodes) == 1 else Seq(tuple(nodes))

    def atom(self, fold: bool) -> Node:
        if self.take("("):
            if self.take("?i:"):
                fold = True
            else:
                self.take("?:")
            node = self.alternatives(fold)
            if not self.take(")"):
                raise ValueError(f"{self.pattern!r}: unbalanced parenthesis")
            return node
        if self.take("."):
            return Chars(ASCII - {10}, beyond=True)
        if self.take("["):
            return self.bracket(fold)
        if self.peek("\\b") or self.peek("\\B"):
            self.at += 2
            return Edge(self.pattern[self.at - 2 : self.at])
        return _folded(self.char(), fold)

    def char(self) -> Chars:
        """A single character or an escape that stands for several."""
        char = self.pattern[self.at]
        self.at += 1
        if char != "\\":
            return Chars(frozenset((ord(char),)))
        char = self.pattern[self.at]
        self.at += 1
        if char in "dDwW":
            codes = _DIGIT if char in "dD" else _WORD
            return Chars(codes) if char.islower() else Chars(ASCII - codes, beyond=True)
        if char == "x":
            code = int(self.pattern[self.at : self.at + 2], 16)
            self.at += 2
            return Chars(frozenset((code,)))
        return Chars(frozenset((_CONTROL.get(char, ord(char)),)))

    def bracket(self, fold: bool) -> Chars:
        negated = self.take("^")
        codes: frozenset[int] = frozenset()
        beyond = False
        while not self.take("]"):
            if posix := _POSIX_NAME.match(self.pattern, self.at):
                self.at = posix.end()
                codes |= _POSIX[posix[1]]
                continue
            one = self.char()
            if self.peek("-") and not self.peek("-]") and len(one.ascii) == 1:
                self.at += 1
                one = Chars(frozenset(range(min(one.ascii), min(self.char().ascii) + 1)))
            codes |= one.ascii
            beyond = beyond or one.beyond
        found = _folded(Chars(codes, beyond), fold)
        return Chars(ASCII - found.ascii, not found.beyond) if negated else found


def _folded(chars: Chars, fold: bool) -> Chars:
    if not fold:
        return chars
    swapped = {ord(chr(code).swapcase()) for code in chars.ascii}
    return Chars(chars.ascii | swapped, chars.beyond)
