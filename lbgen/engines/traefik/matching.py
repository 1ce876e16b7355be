"""Rules of a plan as Traefik's own: the text of a router's rule, and its priority."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from lbgen.engines.api import NATIVE, Verdict, habit
from lbgen.engines.conditions import ConditionTable, Rendered, refuse_names
from lbgen.engines.escapes import Chars, may_hold, parse, plain, write
from lbgen.engines.traefik.quote import quote_rule_text
from lbgen.engines.traefik.tls import escape_regex
from lbgen.plan.conditions import (
    FEATURES,
    Absent,
    AnyOperator,
    AnySubject,
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
from lbgen.plan.model import HostPattern, Rule
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath, RegexPath

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# Traefik decodes the other escapes of a path before it matches; they may stand for parts of one UTF-8 character.
ANY = "Host(`*`)"  # it also applies TLS options to every server name, and to none, and accepts an empty path
_ANY_IN_3_6 = f"{ANY} || HostRegexp(`^`)"  # there the first has an effect on TLS alone
_RESERVED = frozenset(ord(char) for char in ":/?#[]@!$&'()*+,;=%")
_ESCAPES = re.compile("(?:%[0-9A-F]{2})+")
_IN_PATTERN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?:%[0-9A-Fa-f]{2})+(?![*+?{])", re.DOTALL)
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
    parts = [*build_host(rule.host), *build_path(match.path)]
    parts += [CONDITIONS[each.kind].render(each.subject.name, each.operator) for each in match.conditions]
    if trusted is not None and looks_at_proxies(rule):
        peers = " || ".join(call("ClientIP", network) for network in trusted or (NO_CLIENT,))
        parts.append(f"({peers})")
    return " && ".join(parts) or "PathPrefix(`/`)"


def looks_at_proxies(rule: Rule) -> bool:
    """Whether a rule is about fields that only trusted proxies may send."""
    return any(each.subject.name in _OF_PROXIES for each in rule.match.on(Header))


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


def build_path(path: Path) -> list[str]:
    """The condition for a path; none for every path."""
    return [] if path.covers_all else [CONDITIONS[type(path)].render(path.value)]


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


def _exact_path(value: str) -> str:
    return call("Path", decode_path(value))


def _path_prefix(value: str) -> str:
    text = decode_path(value)
    return f"({call('Path', text)} || {call('PathPrefix', text + '/')})"


def _path_pattern(value: str) -> str:
    """Escapes in it are decoded as those of paths are, but for those in a class or with a quantifier."""

    def decode(found: re.Match[str]) -> str:
        escapes = found[0].upper()
        return quote_regex(decode_path(escapes)) if escapes.startswith("%") else found[0]

    return call("PathRegexp", anchor(_IN_PATTERN.sub(decode, value)))


def _method(_: str, operator: OneOf) -> str:
    texts = [call("Method", method) for method in operator.values]
    return texts[0] if len(texts) == 1 else f"({' || '.join(texts)})"


def _header(name: str, text: str) -> str:
    """A header may be a list: its whole value or any element."""
    return call("HeaderRegexp", name, rf"(?:^|,)[ \t]*{text}[ \t]*(?:,|$)")


def _exact_header(name: str, operator: Exact) -> str:
    return _header(name, quote_regex(operator.value))


def _header_regex(name: str, operator: Regex) -> str:
    return _header(name, f"(?:{operator.value})")


def _present_header(name: str, _: Present) -> str:
    return call("HeaderRegexp", name, ".")


def _exact_parameter(name: str, operator: Exact) -> str:
    return call("Query", name, operator.value)


def _parameter_regex(name: str, operator: Regex) -> str:
    return call("QueryRegexp", name, anchor(operator.value))


def _present_parameter(name: str, _: Present) -> str:
    return call("QueryRegexp", name, ".")


def _cookie(name: str, text: str) -> str:
    """Traefik has no matcher for cookies; a value may be in quotes."""
    return call("HeaderRegexp", "Cookie", rf'(?:^|;)[ \t]*{quote_regex(name)}="?{text}"?[ \t]*(?:;|$)')


def _exact_cookie(name: str, operator: Exact) -> str:
    return _cookie(name, quote_regex(operator.value))


def _cookie_regex(name: str, operator: Regex) -> str:
    tree = parse(operator.value)
    return _cookie(name, f"(?:{write(tree, _within_cookie) if may_hold(tree, ';') else operator.value})")


def _within_cookie(chars: Chars) -> str:
    """A set of characters without `;`, which ends a cookie: `.*` would go on in the next one."""
    inside = plain(";\n")(Chars(chars.ascii))
    return f"(?:{inside}|[^\\x00-\\x7f])" if chars.beyond else inside


def _present_cookie(name: str, _: Present) -> str:
    return _cookie(name, '[^";]+')


def _source(_: str, operator: Within) -> str:
    """By the peer's address, which a middleware above all routers replaces by the one that trusted proxies state."""
    texts = [call("ClientIP", network) for network in operator.networks]
    return texts[0] if len(texts) == 1 else f"({' || '.join(texts)})"


def _absent(present: Callable[[str, Present], str]) -> Callable[[str, Absent], str]:
    return lambda name, _: f"!{present(name, Present())}"


def _not(kind: type[AnySubject]) -> Callable[[str, Not], str]:
    def render(name: str, operator: Not) -> str:
        text: str = CONDITIONS[kind, type(operator.operator)].render(name, operator.operator)
        return text.removeprefix("!") if text.startswith("!") else f"!{text}"

    return render


_DIFFERENT_RULE = ("accepted", "status 404", "pool")
_QUERY_SAYS = (
    "any of repeated parameters matches, names and values are decoded, `+` stands for a space, and a parameter with a "
    "malformed escape (`%zz`) is not there"
)
_LINES_SAY = "each line of a repeated header is matched by itself"
_COOKIE_SAYS = "any of repeated cookies matches"


def _habit(subject: type[AnySubject], operator: type[AnyOperator], says: str) -> Verdict:
    return habit(says, {f"{FEATURES[subject, operator]}.routes": _DIFFERENT_RULE})


_PATTERNS = habit(
    "it sees the path with its escapes decoded, but for those of reserved characters: `.` is the whole of `%C3%A9`",
    {f"{FEATURES[RegexPath]}.routes": _DIFFERENT_RULE},
)
CONDITIONS: ConditionTable = {
    ExactPath: Rendered(_exact_path, NATIVE),
    PrefixPath: Rendered(_path_prefix, NATIVE),
    RegexPath: Rendered(_path_pattern, _PATTERNS),
    (Method, OneOf): Rendered(_method, NATIVE),
    (Header, Exact): Rendered(_exact_header, NATIVE),
    (Header, Regex): Rendered(_header_regex, _habit(Header, Regex, _LINES_SAY)),
    (Header, Present): Rendered(_present_header, NATIVE),
    (Header, Absent): Rendered(
        _absent(_present_header), NATIVE, refuse_names(_OF_PROXIES, "Traefik sets this field before it routes")
    ),
    (Query, Exact): Rendered(_exact_parameter, _habit(Query, Exact, _QUERY_SAYS)),
    (Query, Regex): Rendered(_parameter_regex, _habit(Query, Regex, _QUERY_SAYS)),
    (Query, Present): Rendered(_present_parameter, _habit(Query, Present, _QUERY_SAYS)),
    (Query, Absent): Rendered(_absent(_present_parameter), _habit(Query, Absent, _QUERY_SAYS)),
    (Cookie, Exact): Rendered(_exact_cookie, _habit(Cookie, Exact, _COOKIE_SAYS)),
    (Cookie, Regex): Rendered(_cookie_regex, _habit(Cookie, Regex, _COOKIE_SAYS)),
    (Cookie, Present): Rendered(_present_cookie, _habit(Cookie, Present, _COOKIE_SAYS)),
    (Cookie, Absent): Rendered(_absent(_present_cookie), _habit(Cookie, Absent, _COOKIE_SAYS)),
    (Source, Within): Rendered(_source, NATIVE),
    (Method, Not): Rendered(_not(Method), NATIVE),
    (Header, Not): Rendered(
        _not(Header),
        _habit(Header, Not, _LINES_SAY),
        refuse_names(_OF_PROXIES, "Traefik sets this field before it routes"),
    ),
    (Query, Not): Rendered(_not(Query), _habit(Query, Not, _QUERY_SAYS)),
    (Cookie, Not): Rendered(_not(Cookie), _habit(Cookie, Not, _COOKIE_SAYS)),
    (Source, Not): Rendered(_not(Source), NATIVE),
}
