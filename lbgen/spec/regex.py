"""Holds regular expressions to the subset that RE2, PCRE and Go read alike; says what stands outside it."""

from __future__ import annotations

import re
from functools import lru_cache

import re2

from lbgen.spec.problem import bad, shortened, text

_LONGEST = 1024
_QUANTIFIER = re.compile(r"[*+?]|\{[0-9]{1,4}(,[0-9]{0,4})?\}")
_HEX = re.compile(r"x[0-7][0-9A-Fa-f]")
_POSIX = re.compile(r"\[:(alnum|alpha|blank|digit|lower|punct|upper|word|xdigit):\]")
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


def parse_regex(value: object) -> str:
    """A regular expression that every engine reads alike; LB118 with the reason otherwise."""
    pattern = text("a regular expression", value)
    _check(pattern)
    return pattern


@lru_cache(maxsize=4096)
def _check(pattern: str) -> None:
    if not pattern:
        raise bad("LB118", "an empty regular expression", "write .+ for any value")
    if len(pattern) > _LONGEST:
        raise bad("LB118", f"longer than {_LONGEST} characters")
    _Scan(pattern).run()
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise _outside(pattern, shown) from None


def _outside(pattern: str, reason: str, hint: str = "") -> Exception:
    return bad("LB118", f'"{shortened(pattern)}": {reason}', hint)


class _Scan:
    """One pass over a pattern; `at` is the place that is read next."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0

    def run(self) -> None:
        if self.pattern.startswith("(?i)"):
            self.at = 4
        starts = True  # at the beginning of an alternative
        repeatable = False
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char in "*+?{":
                self.quantifier(repeatable)
                starts = repeatable = False
                continue
            repeatable = char not in "(|^$"
            if char == "(":
                self.group()
            elif char == ")":
                self.depth -= 1
                self.at += 1
            elif char == "[":
                self.bracket()
            elif char == "\\":
                self.escape()
            elif char == "^" and not (starts and self.depth == 0):
                raise self.refused("^ inside a pattern", "a regex matches the whole value anyway")
            elif char == "$" and not (self.depth == 0 and self.pattern[self.at + 1 : self.at + 2] in ("", "|")):
                raise self.refused(
                    "$ inside a pattern", "a regex matches the whole value anyway; write \\$ for a dollar"
                )
            else:
                self.literal(char)
                self.at += 1
            starts = char == "|"

    def refused(self, reason: str, hint: str = "") -> Exception:
        return _outside(self.pattern, f"{reason} is not read alike by all engines", hint)

    def literal(self, char: str) -> None:
        if not " " <= char <= "~":
            code = f"U+{ord(char):04X}"
            raise _outside(self.pattern, f"{code} is not a printable ASCII character", "paths hold it percent-encoded")

    def quantifier(self, repeatable: bool) -> None:
        found = _QUANTIFIER.match(self.pattern, self.at)
        if not found:
            raise self.refused("a { that opens no repetition such as {2,5}", "write \\{")
        if not repeatable:
            raise _outside(self.pattern, f"{found[0]} repeats nothing that can be repeated")
        self.at = found.end()
        if self.pattern[self.at : self.at + 1] == "?":
            self.at += 1

    def group(self) -> None:
        self.depth += 1
        if self.pattern[self.at + 1 : self.at + 2] != "?":
            self.at += 1
            return
        for opening in ("(?:", "(?i:"):
            if self.pattern.startswith(opening, self.at):
                self.at += len(opening)
                return
        shown = self.pattern[self.at : self.at + 4]
        if shown.startswith(("(?P<", "(?<")) and shown[:4] not in ("(?<=", "(?<!"):
            raise self.refused("a named group", "write ( ... ): nothing uses the name")
        if shown.startswith(("(?=", "(?!", "(?<")):
            raise self.refused("looking ahead or behind", "use several matches or routes")
        raise self.refused(f"the group {shown}", "use ( ), (?: ), (?i: ), or (?i) at the very beginning")

    def escape(self) -> None:
        """A backslash outside or inside brackets."""
        rest = self.pattern[self.at + 1 : self.at + 4]
        char = rest[:1]
        if not char:
            raise _outside(self.pattern, "ends with a backslash")
        if found := _HEX.match(rest):
            if found[0].lower() in ("x00", "x7f"):
                raise self.refused(f"\\{found[0]}")
            self.at += 4
            return
        if char.isascii() and not char.isalnum() and char.isprintable():
            self.at += 2
            return
        if char not in "dDwWbBtnrf":
            raise self.refused(f"\\{shortened(char)}", _HINTS.get(char, "leave the backslash out, or write a class"))
        self.at += 2

    def bracket(self) -> None:
        """A class; a hyphen stands first, last or between two single characters."""
        at = self.at = self.at + 1
        if self.pattern[self.at : self.at + 1] == "^":
            at = self.at = self.at + 1
        if self.pattern[self.at : self.at + 1] == "]":
            raise self.refused("a ] as the first of a class", "write \\]")
        single = False  # whether a range can begin at what came last
        while self.at < len(self.pattern) and self.pattern[self.at] != "]":
            char = self.pattern[self.at]
            if char == "-" and self.at > at and self.pattern[self.at + 1 : self.at + 2] != "]":
                if not single:
                    raise self.refused("a - beside a class or range", "write \\-")
                self.at += 1
                if not self.element():
                    raise self.refused("a range that ends with a class", "write \\-")
                single = False
            else:
                single = self.element()
        if self.at >= len(self.pattern):
            raise _outside(self.pattern, "a [ without its ]", "write \\[ for the character itself")
        self.at += 1

    def element(self) -> bool:
        """One element of a class; whether it is a single character."""
        if self.at >= len(self.pattern):
            return True
        char = self.pattern[self.at]
        if char == "\\":
            if self.pattern[self.at + 1 : self.at + 2] in ("b", "B"):
                raise self.refused("\\b in a class")
            before = self.at
            self.escape()
            return self.pattern[before + 1] not in "dDwW"
        if char == "[":
            found = _POSIX.match(self.pattern, self.at)
            if not found:
                raise self.refused("a [ in a class", "write \\[")
            self.at = found.end()
            return False
        self.literal(char)
        self.at += 1
        return True
