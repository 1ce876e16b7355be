"""Rules of a plan as Traefik's own: the text of a router's rule, and its priority."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.traefik.quote import quote_rule_text
from lbgen.engines.traefik.tls import escape_regex
from lbgen.plan.model import PathKind, ValueKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.engines.document import Data
    from lbgen.plan.model import HostPattern, NamedMatch, PathMatch, Rule

# Traefik decodes the other escapes of a path before it matches; they may stand for parts of one UTF-8 character.
ANY = "Host(`*`)"  # it also applies TLS options to every server name, and to none, and accepts an empty path
_ANY_IN_3_6 = f"{ANY} || HostRegexp(`^`)"  # there the first has an effect on TLS alone
_RESERVED = frozenset(ord(char) for char in ":/?#[]@!$&'()*+,;=%")
_ESCAPES = re.compile("(?:%[0-9A-F]{2})+")
_BEHIND_BACKSLASH = r"\\\g<0>"
NO_CLIENT = "255.255.255.255/32"
# Traefik drops some of them from other peers, but sets its own before it routes.
_OF_PROXIES = frozenset(f"x-forwarded-{name}" for name in ("for", "host", "port", "proto")) | {"x-request-id"}
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def widen_rules(routers: Mapping[str, Data], version: str) -> None:
    """Have the rules ANY of these routers match every request in this version."""
    for router in routers.values():
        if version == "3.6" and isinstance(router, dict) and router["rule"] == ANY:
            router["rule"] = _ANY_IN_3_6


def count_rules(rules: Iterable[Rule]) -> int:
    """What `find_priority` counts down from; the rules of all listeners that share routers."""
    return max((rule.rank for rule in rules), default=-1) + 1


def find_priority(rule: Rule, total: int) -> int:
    """The priority of a router; none are equal, since Traefik has no order of its own for those."""
    return total - rule.rank


def build_rule(rule: Rule, trusted: Iterable[str] | None = ()) -> str:
    """The rule of a router. Traefik looks at any of repeated query parameters and cookies, takes `+` in a query for a
    space, and matches regular expressions against decoded paths.

    `trusted`: the networks of proxies whose word counts in fields that anybody could send; None = everybody's does."""
    match = rule.match
    parts = [*build_host(rule.host), *build_path(match.path), *build_methods(match.methods)]
    parts += [_header(wanted) for wanted in match.headers]
    parts += [_query(wanted) for wanted in match.query]
    parts += [_cookie(wanted) for wanted in match.cookies]
    if trusted is not None and looks_at_proxies(rule):
        peers = " || ".join(call("ClientIP", network) for network in trusted or (NO_CLIENT,))
        parts.append(f"({peers})")
    return " && ".join(parts) or "PathPrefix(`/`)"


def looks_at_proxies(rule: Rule) -> bool:
    """Whether a rule is about fields that only trusted proxies may send."""
    return any(wanted.name in _OF_PROXIES for wanted in rule.match.headers)


def build_host(host: HostPattern | None) -> list[str]:
    """The condition for a host; Traefik drops the port and one trailing dot for `Host`, for an expression only the
    port."""
    if host is None:
        return []
    if host.wildcard:
        return [call("HostRegexp", rf"^.+\.{escape_regex(host.name)}\.?$")]
    if ":" in host.name:  # Traefik keeps the brackets of an address without a port
        return [call("HostRegexp", rf"^\[?{quote_regex(host.name.strip('[]'))}\]?$")]
    return [call("Host", host.name)]


def build_path(path: PathMatch) -> list[str]:
    """The condition for a path; none for every path."""
    match path.kind:
        case PathKind.EXACT:
            return [call("Path", decode_path(path.value))]
        case PathKind.REGEX:
            return [call("PathRegexp", anchor(path.value))]
        case PathKind.PREFIX:
            if path.covers_all:
                return []
            text = decode_path(path.value)
            return [f"({call('Path', text)} || {call('PathPrefix', text + '/')})"]
        case _:
            assert_never(path.kind)


def build_methods(methods: Iterable[str]) -> list[str]:
    """The condition for the method; none for every method."""
    texts = [call("Method", method) for method in methods]
    if len(texts) < 2:
        return texts
    return [f"({' || '.join(texts)})"]


def decode_path(path: str) -> str:
    """A path as Traefik matches it."""

    def decode(found: re.Match[str]) -> str:
        raw, text = bytes.fromhex(found[0].replace("%", "")), ""
        plain = bytearray()
        for byte in raw:
            if byte in _RESERVED:
                text += plain.decode("utf-8", "surrogateescape") + f"%{byte:02X}"
                plain.clear()
            else:
                plain.append(byte)
        return text + plain.decode("utf-8", "surrogateescape")

    return _ESCAPES.sub(decode, path)


def call(name: str, *texts: str) -> str:
    """A matcher with its arguments."""
    return f"{name}({', '.join(map(quote_rule_text, texts))})"


def anchor(regex: str) -> str:
    """A regular expression that matches whole values."""
    return f"^(?:{regex})$"


def quote_regex(text: str) -> str:
    """A regular expression that matches this text."""
    return _SPECIAL.sub(_BEHIND_BACKSLASH, text) if _SPECIAL.search(text) else text


def _header(wanted: NamedMatch) -> str:
    """A header may be a list: its whole value or any element."""
    name, value = wanted.name, wanted.value
    match value.kind:
        case ValueKind.EXACT:
            text = quote_regex(value.value)
        case ValueKind.REGEX:
            text = f"(?:{value.value})"
        case ValueKind.PRESENT:
            return call("HeaderRegexp", name, ".")
        case _:
            assert_never(value.kind)
    return call("HeaderRegexp", name, rf"(?:^|,)[ \t]*{text}[ \t]*(?:,|$)")


def _query(wanted: NamedMatch) -> str:
    name, value = wanted.name, wanted.value
    match value.kind:
        case ValueKind.EXACT:
            return call("Query", name, value.value)
        case ValueKind.REGEX:
            return call("QueryRegexp", name, anchor(value.value))
        case ValueKind.PRESENT:
            return call("QueryRegexp", name, ".")
        case _:
            assert_never(value.kind)


def _cookie(wanted: NamedMatch) -> str:
    """Traefik has no matcher for cookies; a value may be in quotes."""
    name, value = quote_regex(wanted.name), wanted.value
    match value.kind:
        case ValueKind.EXACT:
            text = f'"?{quote_regex(value.value)}"?'
        case ValueKind.REGEX:
            text = f'"?(?:{value.value})"?'
        case ValueKind.PRESENT:
            text = '"?[^";]+"?'
        case _:
            assert_never(value.kind)
    return call("HeaderRegexp", "Cookie", rf"(?:^|;)[ \t]*{name}={text}[ \t]*(?:;|$)")
