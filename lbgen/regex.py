"""The one reader of regular expressions: a pattern of the subset that RE2, PCRE and Go read alike -> a tree.

Only printable ASCII characters stand in a pattern. `Chars.beyond` stands for what classes and `.` match besides:
characters beyond ASCII are UTF-8, as RE2 reads them.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

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
_NAMED = re.compile(rf"\[:({'|'.join(_POSIX)}):\]")
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12}
_REPEAT = re.compile(r"([*+?]|\{([0-9]{1,4})(?:(,)([0-9]{0,4}))?\})\??")
_NAMED_GROUP = re.compile(r"\(\?P<([a-z][a-z0-9_]{0,30})>")
_HEX = re.compile(r"x([0-7][0-9A-Fa-f])")
BOUNDS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_HINTS = {
    "s": "write [ \\t]: engines disagree on the vertical tab",
    "S": "write [^ \\t]: engines disagree on the vertical tab",
    "z": "a regex matches the whole value anyway",
    "Z": "a regex matches the whole value anyway",
    "A": "a regex matches the whole value anyway",
    "Q": "escape each character by itself",
    "E": "escape each character by itself",
    "v": "engines disagree whether it is one character or a class",
    "C": "engines disagree on what a byte of a character is",
    "p": "write the characters as a class, such as [0-9]",
    "P": "write the characters as a class, such as [^0-9]",
}


class RegexError(ValueError):
    """The pattern is not portable; `hint` says what to write instead."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class Chars(Struct, frozen=True, eq=False):
    """One character out of a set. `beyond`: also any character beyond ASCII."""

    ascii: frozenset[int]
    beyond: bool = False


class Sequence(Struct, frozen=True, eq=False):
    parts: tuple[Node, ...]


class Group(Sequence, frozen=True, eq=False):
    """A sequence whose text can be referred to: by `number`, and by `name` where it has one."""

    number: int
    name: str


class Choice(Struct, frozen=True, eq=False):
    parts: tuple[Node, ...]


class Repeat(Struct, frozen=True, eq=False):
    """`most` None = without end."""

    part: Node
    least: int
    most: int | None


class Boundary(Struct, frozen=True, eq=False):
    """`\\b`, or `\\B` when `inside`."""

    inside: bool


Node = Chars | Sequence | Choice | Repeat | Boundary


@lru_cache(maxsize=4096)
def parse(pattern: str) -> Node:
    """The tree of a portable regular expression; RegexError with the first reason why it is none."""
    return _Reader(pattern).read()


def parse_groups(pattern: str) -> Node:
    """The same tree with a `Group` for each group that can be referred to."""
    return _Reader(pattern, keeps_groups=True).read()


def _refused(reason: str, hint: str = "") -> RegexError:
    return RegexError(f"{reason} is not portable between engines", hint)


class _Reader:
    """Recursive descent over one pattern; `at` is the place that is read next."""

    def __init__(self, pattern: str, *, keeps_groups: bool = False) -> None:
        self.pattern = pattern
        self.keeps_groups = keeps_groups
        self.groups = 0
        self.at = 0
        self.depth = 0

    def read(self) -> Node:
        node = self.choice(fold=self.accept("(?i)"))
        if self.at != len(self.pattern):
            raise RegexError("a ) without its (", "write \\) for the character itself")
        return node

    def accept(self, text: str) -> bool:
        """Step over `text` where it comes next."""
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def next(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def choice(self, *, fold: bool) -> Node:
        parts = [self.sequence(fold)]
        while self.accept("|"):
            parts.append(self.sequence(fold))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self, fold: bool) -> Node:
        parts: list[Node] = []
        first = True
        while self.peek() not in ("", "|", ")"):
            anchor = self.anchor(first)
            node = Sequence(()) if anchor else self.atom(fold)
            node = self.repeated(node, repeatable=not anchor)
            if not anchor:
                parts.append(node)
            first = False
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def anchor(self, first: bool) -> bool:
        """Step over `^` or `$` at an end of the whole pattern's alternatives, where it changes nothing."""
        char = self.peek()
        if char == "^" and not (first and self.depth == 0):
            raise _refused("^ inside a pattern", "a regex matches the whole value anyway")
        if char == "$" and not (self.depth == 0 and self.pattern[self.at + 1 : self.at + 2] in ("", "|")):
            raise _refused("$ inside a pattern", "a regex matches the whole value anyway; write \\$ for a dollar")
        self.at += char in "^$"
        return char in "^$"

    def repeated(self, node: Node, *, repeatable: bool) -> Node:
        """`node` with the quantifier that follows it, which is one at most."""
        if self.peek() not in ("*", "+", "?", "{"):
            return node
        found = _REPEAT.match(self.pattern, self.at)
        if found is None:
            raise _refused("a { that opens no repetition such as {2,5}", "write \\{")
        if not repeatable:
            raise RegexError(f"{found[1]} repeats nothing that can be repeated")
        self.at = found.end()
        if found[1] in BOUNDS:
            least, most = BOUNDS[found[1]]
        else:
            least = int(found[2])
            most = (int(found[4]) if found[4] else None) if found[3] else least
        return self.repeated(Repeat(node, least, most), repeatable=False)

    def atom(self, fold: bool) -> Node:
        char = self.peek()
        if char in "*+?{":
            return self.repeated(Sequence(()), repeatable=False)
        if char == "(":
            return self.group(fold)
        if char == "\\" and self.pattern[self.at + 1 : self.at + 2] in ("b", "B"):
            self.at += 1
            return Boundary(inside=self.next() == "B")
        if char == ".":
            self.at += 1
            return Chars(ASCII - {10}, beyond=True)
        if self.accept("["):
            return self.bracket(fold)
        found = self.character()
        return _folded(found) if fold else found

    def group(self, fold: bool) -> Node:
        number, name = 0, ""
        if self.accept("(?i:"):
            fold = True
        elif found := _NAMED_GROUP.match(self.pattern, self.at):
            self.at = found.end()
            self.groups += 1
            number, name = self.groups, found[1]
        elif not self.accept("(?:"):
            shown = self.pattern[self.at : self.at + 4]
            if shown.startswith(("(?P<", "(?<")) and shown not in ("(?<=", "(?<!"):
                raise _refused("this named group", "write (?P<name>...), with a name in lower case")
            if shown.startswith(("(?=", "(?!", "(?<")):
                raise _refused("look-around", "use several matches or routes")
            if shown.startswith("(?"):
                raise _refused(f"the group {shown}", "use ( ), (?: ), (?i: ), or (?i) at the very beginning")
            self.at += 1
            self.groups += 1
            number = self.groups
        self.depth += 1
        inner = self.choice(fold=fold)
        self.depth -= 1
        if not self.accept(")"):
            raise RegexError("a ( without its )", "write \\( for the character itself")
        return Group((inner,), number, name) if number and self.keeps_groups else inner

    def character(self) -> Chars:
        """A character or an escape, in a class or outside."""
        char = self.next()
        if char == "\\":
            return self.escape()
        if not " " <= char <= "~":
            raise RegexError(f"U+{ord(char):04X} is not a printable ASCII character", "paths hold it percent-encoded")
        return Chars(frozenset((ord(char),)))

    def escape(self) -> Chars:
        if found := _HEX.match(self.pattern, self.at):
            if found[1].lower() in ("00", "7f"):
                raise _refused(f"\\{found[0]}")
            self.at = found.end()
            return Chars(frozenset((int(found[1], 16),)))
        char = self.peek()
        if not char:
            raise RegexError("ends with a backslash")
        if char not in "dDwWtnrf" and (char.isalnum() or not char.isascii() or not char.isprintable()):
            raise _refused(f"\\{char}", _HINTS.get(char, "leave the backslash out, or write a class"))
        self.at += 1
        if char in _CLASSES:
            return Chars(_CLASSES[char])
        if char.lower() in _CLASSES:
            return Chars(ASCII - _CLASSES[char.lower()], beyond=True)
        return Chars(frozenset((_CONTROLS.get(char, ord(char)),)))

    def bracket(self, fold: bool) -> Chars:
        """A class, whose hyphens stand first, last or between two single characters."""
        negated = self.accept("^")
        if self.peek() == "]":
            raise _refused("a ] as the first of a class", "write \\]")
        members: frozenset[int] = frozenset()
        beyond = single = False  # single: a range can begin at what came last
        first, last = True, 0
        while self.peek() not in ("", "]"):
            ranges = self.peek() == "-" and not first and self.pattern[self.at + 1 : self.at + 2] != "]"
            if ranges and not single:
                raise _refused("a - beside a class or range", "write \\-")
            self.at += ranges
            found = self.element()
            if ranges:
                if len(found.ascii) != 1:
                    raise _refused("a range that ends with a class", "write \\-")
                found = Chars(frozenset(range(last, max(found.ascii) + 1)))
            single = len(found.ascii) == 1 and not ranges
            last = max(found.ascii, default=0)
            members |= found.ascii
            beyond |= found.beyond
            first = False
        if not self.accept("]"):
            raise RegexError("a [ without its ]", "write \\[ for the character itself")
        found = _folded(Chars(members, beyond)) if fold else Chars(members, beyond)
        return Chars(ASCII - found.ascii, not beyond) if negated else found

    def element(self) -> Chars:
        """One element of a class."""
        if self.pattern.startswith(("\\b", "\\B"), self.at):
            raise _refused("\\b in a class")
        if not self.peek():
            raise RegexError("a [ without its ]", "write \\[ for the character itself")
        if self.peek() == "[":
            found = _NAMED.match(self.pattern, self.at)
            if found is None:
                raise _refused("a [ in a class", "write \\[")
            self.at = found.end()
            return Chars(_POSIX[found[1]])
        return self.character()


def _folded(found: Chars) -> Chars:
    text = bytes(found.ascii)
    return Chars(found.ascii | frozenset(text.lower()) | frozenset(text.upper()), found.beyond)
