"""Conditions of rules below the plugin, which makes a request for Traefik's matchers: they then hold exactly when the
contract says so.

That request has the path with every `%` as an escape, one line for each value that a header condition may hold for, the
first of each query parameter, and a line `name=value` for each cookie; conditions.go fills it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.traefik.matching import anchor, build_host, build_methods, call, quote_regex
from lbgen.plan.model import PathKind, ValueKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.engines.document import Data
    from lbgen.plan.model import NamedMatch, PathMatch, Rule

ANY = "Host(`*`)"  # it also applies TLS options to every server name, and to none, and accepts an empty path
_ANY_IN_3_6 = f"{ANY} || HostRegexp(`^`)"  # there the first has an effect on TLS alone
# As in conditions.go.
_COOKIE_LINES = "Cookie"
_COOKIE_HEADER = "Lbgen-Cookie"
_PATH_HEADER = "Lbgen-Path"


def build_rule(rule: Rule) -> str:
    """The rule of a router below the plugin."""
    match = rule.match
    parts = [*build_host(rule.host), *_path(match.path), *build_methods(match.methods)]
    parts += [_header(wanted) for wanted in match.headers]
    parts += [_value("Query", wanted) for wanted in match.query]
    parts += [_cookie(wanted) for wanted in match.cookies]
    return " && ".join(parts) or ANY


def widen_rules(routers: Mapping[str, Data], version: str) -> None:
    """Have the rules ANY of these routers match every request in this version."""
    for router in routers.values():
        if version == "3.6" and isinstance(router, dict) and router["rule"] == ANY:
            router["rule"] = _ANY_IN_3_6


def find_asked(rules: Sequence[Rule]) -> dict[str, Data]:
    """What the plugin must fill in for these rules."""
    matches = [rule.match for rule in rules]
    names = {
        "headers": sorted({wanted.name for match in matches for wanted in match.headers}),
        "query": sorted({wanted.name for match in matches for wanted in match.query}),
        "cookies": sorted({wanted.name for match in matches for wanted in match.cookies}),
    }
    asked: dict[str, Data] = {key: [*found] for key, found in names.items() if found}
    if has_path_expressions(rules):
        asked["path"] = True
    return asked


def has_path_expressions(rules: Iterable[Rule]) -> bool:
    """Whether a rule matches paths by a regular expression."""
    return any(rule.match.path.kind is PathKind.REGEX for rule in rules)


def escape_path(path: str) -> str:
    """A path as Traefik matches it in such a request."""
    return path.replace("%", "%25")


def _path(path: PathMatch) -> list[str]:
    match path.kind:
        case PathKind.EXACT:
            return [call("Path", escape_path(path.value))]
        case PathKind.REGEX:
            return [call("HeaderRegexp", _PATH_HEADER, anchor(path.value))]
        case PathKind.PREFIX:
            if path.covers_all:
                return []
            text = escape_path(path.value)
            return [f"({call('Path', text)} || {call('PathPrefix', text + '/')})"]
        case _:
            assert_never(path.kind)


def _header(wanted: NamedMatch) -> str:
    name = "-".join(part.capitalize() for part in wanted.name.split("-"))
    return _value("Header", wanted, _COOKIE_HEADER if name == _COOKIE_LINES else name)


def _cookie(wanted: NamedMatch) -> str:
    name, value = wanted.name, wanted.value
    match value.kind:
        case ValueKind.EXACT:
            return call("Header", _COOKIE_LINES, f"{name}={value.value}")
        case ValueKind.REGEX:
            return call("HeaderRegexp", _COOKIE_LINES, anchor(f"{quote_regex(name)}=(?:{value.value})"))
        case ValueKind.PRESENT:
            return call("HeaderRegexp", _COOKIE_LINES, f"^{quote_regex(name)}=.")
        case _:
            assert_never(value.kind)


def _value(matcher: str, wanted: NamedMatch, name: str = "") -> str:
    value, name = wanted.value, name or wanted.name
    match value.kind:
        case ValueKind.EXACT:
            return call(matcher, name, value.value)
        case ValueKind.REGEX:
            return call(f"{matcher}Regexp", name, anchor(value.value))
        case ValueKind.PRESENT:
            return call(f"{matcher}Regexp", name, ".")
        case _:
            assert_never(value.kind)
