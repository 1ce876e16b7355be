"""Quoting: free text of a user as one word of haproxy.cfg that HAProxy reads back unchanged."""

from __future__ import annotations

import re
from typing import assert_never

from msgspec import Struct

from lbgen.engines.escapes import group, plain
from lbgen.regex import Boundary, Chars, Choice, Node, Repeat, Sequence, parse

_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@?&+~^|*!<>;()%\[\]-]+")
_NOT_IN_SINGLE_QUOTES = re.compile(r"['\n]")
_SPECIAL_IN_DOUBLE_QUOTES = re.compile(r'[\\"$]')


class Sample(Struct, frozen=True, eq=False):
    """A sample expression inside a log-format text, such as `var(txn.host)`; it has no text of a user."""

    expression: str


def word(text: str) -> str:
    """One literal argument. Single quotes protect everything but themselves and line breaks; a text with one of these
    is in double quotes, where a backslash escapes."""
    if _PLAIN.fullmatch(text):
        return text
    if not _NOT_IN_SINGLE_QUOTES.search(text):
        return f"'{text}'"
    escaped = _SPECIAL_IN_DOUBLE_QUOTES.sub(r"\\\g<0>", text).replace("\n", "\\n")
    return f'"{escaped}"'


def log_format(*parts: str | Sample) -> str:
    """A log-format text: literal parts with `%` doubled, samples as `%[...]`. The result still needs `word`."""
    return "".join(f"%[{p.expression}]" if isinstance(p, Sample) else p.replace("%", "%%") for p in parts)


def argument(name: str) -> str:
    """A header name as the argument of a fetch; of the token characters only the apostrophe has a meaning there."""
    return f'"{name}"' if "'" in name else name


def value_regex(pattern: str) -> str:
    """A regex for values that may be UTF-8, as HAProxy matches bytes: a part that stands for any one character becomes
    the bytes of one, unless it repeats without limit, where bytes and characters match alike."""
    node = parse(pattern)
    return group(node, plain("")) if _one_of_any_kind(node) else pattern


def _one_of_any_kind(node: Node) -> bool:
    match node:
        case Chars():
            return node.beyond
        case Sequence() | Choice():
            return any(_one_of_any_kind(part) for part in node.parts)
        case Repeat():
            endless = isinstance(node.part, Chars) and node.most is None and node.least < 2
            return not endless and _one_of_any_kind(node.part)
        case Boundary():
            return False
        case _:
            assert_never(node)


QUOTES = {"word": word}
