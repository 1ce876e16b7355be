"""Conditions of a rule as Envoy route matches, with the contract's reading of paths, headers, queries and cookies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar, cast

from lbgen.engines import escapes
from lbgen.engines.api import NATIVE, Verdict, emulated, habit
from lbgen.engines.conditions import ConditionTable, Rendered, refuse_names
from lbgen.engines.envoy.forwarded_headers import STATED_CLIENT, name_in_envoy
from lbgen.engines.envoy.predicates import cidrs
from lbgen.plan.conditions import (
    FEATURES,
    Absent,
    AnyOperator,
    AnySubject,
    Condition,
    Cookie,
    Exact,
    Header,
    Method,
    Not,
    OneOf,
    Present,
    Query,
    Regex,
    Source,
    Within,
)
from lbgen.plan.forwarding import PROXY_FIELDS
from lbgen.plan.model import Listener, Match
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath, RegexPath

if TYPE_CHECKING:
    from lbgen.engines.document import Data

    _Matcher = tuple[str, dict[str, Data]]  # the field of a RouteMatch, and what it has

_Network = TypeVar("_Network", IPv4Network, IPv6Network)
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
    parts: dict[str, list[Data]] = {"headers": [], "query_parameters": [], "cookies": [], "filter_state": []}
    for each in match.conditions:
        field, matcher = match_value(each.subject, each.operator, name_in_envoy(each.subject, listener))
        parts[field].append(matcher)
    return found | {field: matchers for field, matchers in parts.items() if matchers}


def match_path(path: Path) -> dict[str, Data]:
    """The path part of a RouteMatch. Envoy compares the path before the `?`."""
    if path.covers_all:
        return {"prefix": "/"}
    data: dict[str, Data] = CONDITIONS[type(path)].render(path.value)
    return data


def match_value(subject: AnySubject, operator: AnyOperator, name: str) -> tuple[str, dict[str, Data]]:
    """The field of a RouteMatch, and what it has for this condition on what Envoy calls `name`."""
    found: tuple[str, dict[str, Data]] = CONDITIONS[type(subject), type(operator)].render(name, operator)
    return found


def _exact_path(value: str) -> dict[str, Data]:
    return {"path": value} if "%" not in value else regex(escape_path(value))


def _path_prefix(value: str) -> dict[str, Data]:
    return {"path_separated_prefix": value} if "%" not in value else regex(escape_path(value) + "(?:/.*)?")


def escape_regex(text: str) -> str:
    """A pattern for exactly this text."""
    return _SPECIAL.sub(lambda m: f"\\x{ord(m[0]):02x}" if m[0] < " " else f"\\{m[0]}", text)


def escape_path(path: str) -> str:
    """A pattern for exactly this path, whatever the hex case of its escapes."""
    return _ESCAPE.sub(lambda m: f"%{_nibble(m[1])}{_nibble(m[2])}", escape_regex(path))


def _header(name: str, pattern: str) -> _Matcher:
    return "headers", {"name": name, "string_match": regex(pattern)}


def _query(name: str, pattern: str) -> _Matcher:
    return "query_parameters", {"name": name, "string_match": regex(pattern)}


def _cookie(name: str, match: Data) -> _Matcher:
    return "cookies", {"name": name, "string_match": match}


def _method(name: str, operator: OneOf) -> _Matcher:
    if len(operator.values) == 1:
        return "headers", {"name": ":method", "string_match": {"exact": operator.values[0]}}
    return _header(":method", "|".join(operator.values))


def _exact_header(name: str, operator: Exact) -> _Matcher:
    """The whole value, or any element of its list. Envoy 1.39 and newer compares each line; older ones join all lines
    by a bare comma."""
    text = escape_regex(operator.value)
    return _header(name, text.replace(", ", ", ?") if "," in operator.value else _in_list(text))


def _header_regex(name: str, operator: Regex) -> _Matcher:
    element = escapes.group(escapes.parse(operator.value), _but_comma)
    return _header(name, f"(?:{operator.value})|{_in_list(element)}")


def _present_header(name: str, _: Present) -> _Matcher:
    return _header(name, r"\C+")


def _exact_parameter(name: str, operator: Exact) -> _Matcher:
    """Envoy compares the raw value, the contract the decoded one."""
    return _query(name, "".join(_encode_byte(byte) for byte in operator.value.encode()))


def _parameter_regex(name: str, operator: Regex) -> _Matcher:
    return _query(name, escapes.group(escapes.parse(operator.value), _encoded) or "()")  # the anchors are gone


def _present_parameter(name: str, _: Present) -> _Matcher:
    return _query(name, ".+")


def _exact_cookie(name: str, operator: Exact) -> _Matcher:
    """As in the contract, Envoy takes the first cookie of a name and removes its quotes."""
    return _cookie(name, {"exact": operator.value})


def _cookie_regex(name: str, operator: Regex) -> _Matcher:
    return _cookie(name, regex(operator.value))


def _present_cookie(name: str, _: Present) -> _Matcher:
    return _cookie(name, regex(r"\C+"))


def _source(name: str, operator: Within) -> _Matcher:
    """By the filter state `name`, as route matches have nothing for addresses."""
    ranges = cidrs(operator.networks, mapped=name == STATED_CLIENT)
    return "filter_state", {"key": name, "address_match": {"ranges": ranges}}


def _not_source(name: str, operator: Not) -> _Matcher:
    """By all other networks: Envoy 1.37 cannot invert the match."""
    named = [*map(ip_network, operator.operator.networks)] if isinstance(operator.operator, Within) else []
    others = (
        *_all_but(IPv4Network("0.0.0.0/0"), [each for each in named if isinstance(each, IPv4Network)]),
        *_all_but(IPv6Network("::/0"), [each for each in named if isinstance(each, IPv6Network)]),
    )
    return _source(name, Within(tuple(map(str, others))))


def _all_but(every: _Network, networks: Iterable[_Network]) -> list[_Network]:
    """The parts of a network that are in none of the others."""
    left = [every]
    for each in networks:
        parts: list[_Network] = []
        for one in left:
            parts += one.address_exclude(each) if each.subnet_of(one) else () if one.subnet_of(each) else (one,)
        left = parts
    return left


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


def _absent_header(name: str, _: Absent) -> _Matcher:
    field, matcher = _present_header(name, Present())
    return field, {**matcher, "invert_match": True, "treat_missing_header_as_empty": True}


def _absent_parameter(name: str, _: Absent) -> _Matcher:
    """Matchers of parameters cannot be inverted, that of the whole target can."""
    text = escape_regex(name)
    return "headers", {"name": ":path", "string_match": regex(rf"[^?]*\?(?:.*&)?{text}=[^&].*"), "invert_match": True}


def _absent_cookie(name: str, _: Absent) -> _Matcher:
    field, matcher = _present_cookie(name, Present())
    return field, {**matcher, "invert_match": True}


def _inverted(field: str, matcher: dict[str, Data], **more: Data) -> _Matcher:
    others = {key: value for key, value in matcher.items() if key != "invert_match"}
    return field, {**others, **({} if "invert_match" in matcher else {"invert_match": True}), **more}


def _not_method(name: str, operator: Not) -> _Matcher:
    return _inverted(*match_value(Method(), operator.operator, name))


def _not_header(name: str, operator: Not) -> _Matcher:
    return _inverted(*match_value(Header(name), operator.operator, name), treat_missing_header_as_empty=True)


def _not_parameter(name: str, operator: Not) -> _Matcher:
    if isinstance(operator.operator, Absent):
        return _present_parameter(name, Present())
    if isinstance(operator.operator, Present):
        return _absent_parameter(name, Absent())
    _, matcher = match_value(Query(name), operator.operator, name)
    value = cast("dict[str, dict[str, str]]", matcher["string_match"])["safe_regex"]["regex"]
    has_value = f"=(?:{value})" if not operator.operator.accepts("") else f"(?:=(?:{value})?)?"
    text = rf"[^?]*\?(?:.*&)?{escape_regex(name)}{has_value}(?:&.*)?"
    return "headers", {"name": ":path", "string_match": regex(text), "invert_match": True}


def _not_cookie(name: str, operator: Not) -> _Matcher:
    return _inverted(*match_value(Cookie(name), operator.operator, name))


def _refuse_header(condition: Condition) -> str | None:
    operator = condition.operator
    if isinstance(operator, Not) and isinstance(operator.operator, Exact | Regex) and operator.operator.accepts(""):
        return "Envoy takes a header that is missing for an empty one here"
    return refuse_names(PROXY_FIELDS, "Envoy writes this field before it matches routes")(condition)


def _any_parameter(operator: type[AnyOperator]) -> Verdict:
    return habit(
        "of repeated parameters any counts",
        {f"{FEATURES[Query, operator]}.routes": ("accepted", "status 404", "pool")},
    )


_ESCAPED = habit(
    "raw characters that RFC 3986 has no place for in a path, such as `|`, are compared as escapes",
    {"match.path.regex.raw": "status 404"},
)
_ANCHORED = emulated("a regex for lists and repeated lines, which ignores whether a space follows a comma")
_FILTER_STATE = emulated(
    "a filter state with the client's address; behind trusted proxies the route is looked for twice"
)
_DECODED = emulated("compared by a regex over the percent-encoded value; a broken escape matches no regex")

CONDITIONS: ConditionTable = {
    ExactPath: Rendered(_exact_path, NATIVE),
    PrefixPath: Rendered(_path_prefix, NATIVE),
    RegexPath: Rendered(regex, _ESCAPED),
    (Method, OneOf): Rendered(_method, NATIVE),
    (Header, Exact): Rendered(_exact_header, _ANCHORED),
    (Header, Regex): Rendered(_header_regex, _ANCHORED),
    (Header, Present): Rendered(_present_header, _ANCHORED),
    (Header, Absent): Rendered(
        _absent_header, NATIVE, refuse_names(PROXY_FIELDS, "Envoy writes this field before it matches routes")
    ),
    (Query, Exact): Rendered(_exact_parameter, _DECODED),
    (Query, Regex): Rendered(_parameter_regex, _DECODED),
    (Query, Present): Rendered(_present_parameter, NATIVE),
    (Query, Absent): Rendered(_absent_parameter, _any_parameter(Absent)),
    (Cookie, Exact): Rendered(_exact_cookie, NATIVE),
    (Cookie, Regex): Rendered(_cookie_regex, NATIVE),
    (Cookie, Present): Rendered(_present_cookie, NATIVE),
    (Cookie, Absent): Rendered(_absent_cookie, NATIVE),
    (Source, Within): Rendered(_source, _FILTER_STATE),
    (Method, Not): Rendered(_not_method, NATIVE),
    (Header, Not): Rendered(_not_header, _ANCHORED, _refuse_header),
    (Query, Not): Rendered(_not_parameter, _any_parameter(Not)),
    (Cookie, Not): Rendered(_not_cookie, NATIVE),
    (Source, Not): Rendered(_not_source, _FILTER_STATE),
}
