"""Conditions of a rule as Envoy route matches, with the contract's reading of paths, headers, queries and cookies."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, assert_never

from lbgen.engines import escapes
from lbgen.engines.envoy.forwarded_headers import PROTO, SAVED_PROTO
from lbgen.plan.model import PathKind, ValueKind

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Match, PathMatch, ValueMatch

_HEX = b"0123456789ABCDEFabcdef"
# Characters that a query may hold unescaped; `&` ends the value, `%` begins an escape, `#` the fragment.
_RAW_IN_QUERY = frozenset(range(0x21, 0x7F)) - frozenset(b"&%#")
# One character beyond ASCII as percent-encoded UTF-8.
_BEYOND_ASCII = r"\x{80}-\x{10FFFF}"
_CONTINUED = "%[89ABab][0-9A-Fa-f]"
_BEYOND = (
    f"(?:%[Cc][2-9A-Fa-f]|%[Dd][0-9A-Fa-f]){_CONTINUED}"
    f"|%[Ee][0-9A-Fa-f]{_CONTINUED}{_CONTINUED}"
    f"|%[Ff][0-4]{_CONTINUED}{_CONTINUED}{_CONTINUED}"
)
_ESCAPE = re.compile("%([0-9A-F])([0-9A-F])")
_SPECIAL = re.compile(r"[\x00-\x1f.*+?()\[\]{}|^$\\\x7f]")


def regex(pattern: str) -> dict[str, Data]:
    """A StringMatcher for values that match `pattern` as a whole."""
    return {"safe_regex": {"regex": pattern}}


def build_match(match: Match, listener: Listener) -> dict[str, Data]:
    """A RouteMatch for all of `match`."""
    found: dict[str, Data] = match_path(match.path)
    headers: list[Data] = []
    if len(match.methods) == 1:
        headers.append({"name": ":method", "string_match": {"exact": match.methods[0]}})
    elif match.methods:
        headers.append({"name": ":method", "string_match": regex("|".join(match.methods))})
    saved = SAVED_PROTO if listener.trusted_proxies else PROTO
    named = [(saved if h.name == PROTO else h.name, h.value) for h in match.headers]
    for name, value in named:
        headers += match_header(name, value)
    if headers:
        found["headers"] = headers
    if match.query:
        found["query_parameters"] = [{"name": q.name, "string_match": match_query(q.value)} for q in match.query]
    if match.cookies:
        found["cookies"] = [{"name": c.name, "string_match": match_cookie(c.value)} for c in match.cookies]
    return found


def match_path(path: PathMatch) -> dict[str, Data]:
    """The path part of a RouteMatch. Envoy compares the path before the `?`."""
    match path.kind:
        case PathKind.EXACT:
            return {"path": path.value} if "%" not in path.value else regex(escape_path(path.value))
        case PathKind.PREFIX:
            if path.covers_all:
                return {"prefix": "/"}
            if "%" not in path.value:
                return {"path_separated_prefix": path.value}
            return regex(escape_path(path.value) + "(?:/.*)?")
        case PathKind.REGEX:
            return regex(path.value)
        case _:
            assert_never(path.kind)


def escape_regex(text: str) -> str:
    """A pattern for exactly this text."""
    return _SPECIAL.sub(lambda m: f"\\x{ord(m[0]):02x}" if m[0] < " " else f"\\{m[0]}", text)


def escape_path(path: str) -> str:
    """A pattern for exactly this path, whatever the hex case of its escapes."""
    return _ESCAPE.sub(lambda m: f"%{_nibble(m[1])}{_nibble(m[2])}", escape_regex(path))


def match_header(name: str, value: ValueMatch) -> list[Data]:
    """Matchers that all hold for a header: of the whole value, or of any element of its list.

    Envoy 1.39 and newer compares each line; older ones join all lines by a bare comma.
    """
    match value.kind:
        case ValueKind.EXACT if "," in value.value:
            pattern = escape_regex(value.value).replace(", ", ", ?")
        case ValueKind.EXACT:
            pattern = _in_list(escape_regex(value.value))
        case ValueKind.REGEX:
            element = escapes.group(escapes.parse(value.value), _but_comma)
            pattern = f"(?:{value.value})|{_in_list(element)}"
        case ValueKind.PRESENT:
            pattern = r"\C+"
        case _:
            assert_never(value.kind)
    return [{"name": name, "string_match": regex(pattern)}]


def match_query(value: ValueMatch) -> dict[str, Data]:
    """Matches a query parameter: Envoy compares the raw value, the contract the decoded one."""
    match value.kind:
        case ValueKind.EXACT:
            return regex("".join(_encode_byte(byte) for byte in value.value.encode()))
        case ValueKind.REGEX:
            return regex(escapes.group(escapes.parse(value.value), _encoded) or "()")  # the anchors are gone
        case ValueKind.PRESENT:
            return regex(".+")
        case _:
            assert_never(value.kind)


def match_cookie(value: ValueMatch) -> dict[str, Data]:
    """Matches a cookie: as in the contract, Envoy takes the first cookie of a name and removes its quotes."""
    match value.kind:
        case ValueKind.EXACT:
            return {"exact": value.value}
        case ValueKind.REGEX:
            return regex(value.value)
        case ValueKind.PRESENT:
            return regex(r"\C+")
        case _:
            assert_never(value.kind)


def _nibble(digit: str) -> str:
    return digit if digit.isdigit() else f"[{digit}{digit.lower()}]"


def _in_list(element: str) -> str:
    return rf"(?:\C*,)?[ \t]*(?:{element})[ \t]*(?:,\C*)?"


def _but_comma(chars: escapes.Chars) -> str:
    return _class(escapes.Chars(chars.ascii - {ord(",")}, chars.beyond))


def _class(chars: escapes.Chars) -> str:
    """`chars` as one RE2 class over characters."""
    if not chars.ascii and not chars.beyond:
        return r"[^\x00-\x{10FFFF}]"
    return f"[{_ranges(chars.ascii)}{_BEYOND_ASCII if chars.beyond else ''}]"


def _ranges(codes: frozenset[int]) -> str:
    """The inside of a class for these ASCII codes."""
    found = []
    for _, run in groupby(enumerate(sorted(codes)), lambda pair: pair[1] - pair[0]):
        members = [code for _, code in run]
        first, last = (chr(c) if chr(c).isalnum() else f"\\x{c:02x}" for c in (members[0], members[-1]))
        found.append(first if len(members) == 1 else f"{first}-{last}")
    return "".join(found)


def _encode_byte(byte: int) -> str:
    escaped = _ESCAPE.sub(lambda m: f"%{_nibble(m[1])}{_nibble(m[2])}", f"%{byte:02X}")
    return f"(?:{escape_regex(chr(byte))}|{escaped})" if byte in _RAW_IN_QUERY else escaped


@lru_cache(maxsize=4096)
def _encoded(chars: escapes.Chars) -> str:
    """One character of a decoded query value in all its encodings."""
    parts = []
    if raw := chars.ascii & _RAW_IN_QUERY:
        parts.append(f"[{_ranges(raw)}]")
    lows: dict[str, list[str]] = {}
    for high in range(8):
        low = "".join(chr(d) for d in _HEX if high * 16 + int(chr(d), 16) in chars.ascii)
        if low:
            lows.setdefault(low, []).append(str(high))
    parts += [f"%[{''.join(highs)}][{low}]" for low, highs in lows.items()]
    if chars.beyond:
        parts.append(_BEYOND)
    return f"(?:{'|'.join(parts)})" if parts else _class(chars)
