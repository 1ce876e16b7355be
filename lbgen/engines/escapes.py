"""The regexes and texts of a topology -> the same test over bytes as they are sent, in a dialect an engine can run.

A topology's regex judges a whole value; engines often see only raw text in which that value lies between others, or
percent-encoded. The printers here write each set of characters in a form that fits the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from lbgen.regex import ALNUM, ASCII, BOUNDS, Boundary, Choice, Group, Node, Repeat, Sequence, parse_groups
from lbgen.regex import Chars as Chars
from lbgen.regex import parse as parse

# What may stand raw in a query: the URI set without what delimits a value and without the escape sign.
_QUERY_RAW = frozenset(b"-._~:/?[]@!$'()*+,;=") | ALNUM
_HEX = "0123456789ABCDEF"
_ESCAPE = re.compile("%([0-9A-F]{2})")


def literal(text: str) -> Node:
    """A text as a tree; characters beyond ASCII become their UTF-8 bytes."""
    return Sequence(tuple(Chars(frozenset((byte,))) for byte in text.encode()))


def write(node: Node, chars: Callable[[Chars], str]) -> str:
    """The regex of `node`, each set of characters written by `chars` (as one unit that may be repeated)."""
    match node:
        case Chars():
            return chars(node)
        case Group():
            return f"({f'?<{node.name}>' if node.name else ''}{write(node.parts[0], chars)})"
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


def mark_group(pattern: str, number: int, name: str = "") -> Node:
    """The tree of a pattern in which its group `number`, counted from 1, is the only one, with that `name` if any."""

    def marked(node: Node) -> Node:
        match node:
            case Group():
                inner = marked(node.parts[0])
                return Group((inner,), number, name) if node.number == number else inner
            case Sequence():
                return Sequence(tuple(map(marked, node.parts)))
            case Choice():
                return Choice(tuple(map(marked, node.parts)))
            case Repeat():
                return Repeat(marked(node.part), node.least, node.most)
        return node

    return marked(parse_groups(pattern))


def group(node: Node, chars: Callable[[Chars], str]) -> str:
    """As `write`, fit to stand beside other text."""
    text = write(node, chars)
    return f"(?:{text})" if isinstance(node, Choice) else text


def has_boundary(node: Node) -> bool:
    """Whether `\\b` or `\\B` occurs, which cannot be judged in encoded text."""
    return any(isinstance(leaf, Boundary) for leaf in _leaves(node))


def may_hold(node: Node, char: str) -> bool:
    """Whether a match can hold `char` (ASCII) at all."""
    return any(isinstance(leaf, Chars) and ord(char) in leaf.ascii for leaf in _leaves(node))


def _leaves(node: Node) -> Iterator[Chars | Boundary]:
    match node:
        case Chars() | Boundary():
            yield node
        case Sequence() | Choice():
            for part in node.parts:
                yield from _leaves(part)
        case Repeat():
            yield from _leaves(node.part)
        case _:
            assert_never(node)


def _times(least: int, most: int | None) -> str:
    for sign, bounds in BOUNDS.items():
        if bounds == (least, most):
            return sign
    if most is None:
        return f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def plain(without: str = "\n") -> Callable[[Chars], str]:
    """A printer for values that stand as they are, in text where the ASCII characters `without` end or part them."""
    ends = frozenset(without.encode())

    def chars(found: Chars) -> str:
        allowed = found.ascii - ends
        if not found.beyond:
            return _class(allowed)
        inside = _class(allowed) if allowed else ""
        return f"(?:{inside}{'|' if inside else ''}[\\xc2-\\xf4][\\x80-\\xbf]+)"

    return chars


def encoded(lookahead: bool = True) -> Callable[[Chars], str]:
    """A printer for values of a query: raw or percent-encoded, hex digits of either case.

    A `%` that begins no escape stands for itself; an engine without `lookahead` takes only `%25` for it.
    """

    def chars(found: Chars) -> str:
        forms = []
        raw = found.ascii & _QUERY_RAW
        if raw:
            forms.append(_class(raw))
        forms.extend(f"%{form}" for form in _hex_forms(found.ascii))
        if found.beyond:
            forms.append("%[C-Fc-f][0-9A-Fa-f](?:%[89ABab][0-9A-Fa-f])+")
        if lookahead and ord("%") in found.ascii:
            forms.append("%(?![0-9A-Fa-f]{2})")
        if not forms:
            return _class(frozenset())
        return forms[0] if len(forms) == 1 and forms[0][0] == "[" else f"(?:{'|'.join(forms)})"

    def bytewise(found: Chars) -> str:
        # A byte of a UTF-8 text, as `literal` makes them.
        if found.ascii <= ASCII:
            return chars(found)
        (byte,) = found.ascii
        return f"%{_hex(byte)}"

    return bytewise


def encoded_regex(pattern: str, lookahead: bool = True) -> str:
    """A regex over the raw value of a query parameter that holds when `pattern` matches the decoded value."""
    return group(parse(pattern), encoded(lookahead))


def encoded_literal(text: str, lookahead: bool = True) -> str:
    """A regex over the raw value of a query parameter that holds when the decoded value is `text`."""
    return group(literal(text), encoded(lookahead))


def path_literal(path: str) -> str:
    """A regex for a plan's path as it may be sent: the same characters, hex digits of escapes in either case."""
    pieces = _ESCAPE.split(path)  # every other one is the digits of an escape
    return "".join(f"%{_hex(int(x, 16))}" if n % 2 else "".join(_char(ord(c)) for c in x) for n, x in enumerate(pieces))


def _char(byte: int) -> str:
    """One byte outside a class; letters, digits and harmless signs as they are."""
    char = chr(byte)
    if char.isascii() and (char.isalnum() or char in " _-/:;,=@&%~!<>"):
        return char
    if char in ".*+?()[]{}|^$":
        return "\\" + char
    return f"\\x{byte:02x}"


def _class_char(byte: int) -> str:
    char = chr(byte)
    return char if char.isascii() and (char.isalnum() or char in " _/:;,=@&%~!<>.*+?(){}|$") else f"\\x{byte:02x}"


def _class(members: frozenset[int]) -> str:
    """A bracket expression for bytes, the shorter of plain and negated; an empty one never matches."""
    if not members:
        return r"[^\x00-\xff]"
    if len(members) == 1:
        return _char(next(iter(members)))
    missing = ASCII - members
    if len(missing) < len(members) and len(missing) <= 4:
        return f"[^{''.join(_ranges(missing))}\\x80-\\xff]"
    return f"[{''.join(_ranges(members))}]"


def _ranges(members: Iterable[int]) -> list[str]:
    out: list[str] = []
    run: list[int] = []
    for byte in [*sorted(members), 0x1000]:
        if run and byte != run[-1] + 1:
            first, last = _class_char(run[0]), _class_char(run[-1])
            if len(run) > 2:
                out.append(f"{first}-{last}")
            else:
                out.append(first if len(run) == 1 else first + last)
            run = []
        run.append(byte)
    return out


def _hex(byte: int) -> str:
    """Two hex digits of either case."""
    return "".join(d if d.isdigit() else f"[{d}{d.lower()}]" for d in f"{byte:02X}")


def _hex_forms(members: frozenset[int]) -> list[str]:
    """Regexes that together match the two hex digits of every member."""
    lows: dict[int, int] = {}
    for byte in members:
        lows[byte >> 4] = lows.get(byte >> 4, 0) | 1 << (byte & 15)
    highs: dict[int, int] = {}
    for high, low in lows.items():
        highs[low] = highs.get(low, 0) | 1 << high
    return [_digits(high) + _digits(low) for low, high in sorted(highs.items(), key=lambda pair: pair[1])]


def _digits(bits: int) -> str:
    digits = [_HEX[n] for n in range(16) if bits >> n & 1]
    if len(digits) == 16:
        return "[0-9A-Fa-f]"
    if len(digits) == 1 and digits[0].isdigit():
        return digits[0]
    return f"[{''.join(digits)}{''.join(d.lower() for d in digits if d.isalpha())}]"
