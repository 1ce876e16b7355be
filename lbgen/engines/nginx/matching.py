"""Rule matching: maps whose regexes test what a location leaves open, in the order of the rules.

The key of a map holds the values its rules test, each ended by a line feed, which no header or target can contain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lbgen.engines import escapes
from lbgen.engines.api import NATIVE, emulated
from lbgen.engines.conditions import ConditionTable, Rendered
from lbgen.engines.nginx.definitions import Definitions, Section
from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.request_values import RequestValues
from lbgen.engines.nginx.statements import Entry, Text
from lbgen.engines.nginx.strings import text, variables
from lbgen.engines.text import Atom, Literal
from lbgen.plan.conditions import (
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
from lbgen.plan.model import Listener
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath, RegexPath
from lbgen.plan.precedence import Candidate, group
from lbgen.plan.regex import matches_whole

METHOD, PATH = "request_method", "request_uri"
_NOT_FOUND = Atom("@not_found")
_NEVER = "(?!)"
_END = r"[ \t]*\n"
_ELEMENT = r"(?:[^\n]*,)?[ \t]*{}[ \t]*[,\n]"  # of a list


def location_variable(
    definitions: Definitions,
    values: RequestValues,
    candidates: tuple[Candidate, ...],
    locations: tuple[str, ...],
    target: str,
    listener: Listener,
) -> str:
    """The variable with the location of the first candidate that matches, `@not_found` when none does; where the maps
    of several are equal they share one."""
    known = definitions.known
    rules = tuple((c.rule.id, c.test_path, location) for c, location in zip(candidates, locations, strict=True))
    key = ("route", target, values.trusted(listener), rules)
    if key not in known:
        name = definitions.names.variable("route", locations[0].removeprefix("@"))
        source, default, entries = _rule_map(values, candidates, locations, target, listener)
        known[key] = known.setdefault((source, default, entries), name)
        if known[key] == name:
            origin = candidates[0].rule.field
            definitions.map(Section.RULES, name, source, *entries, default=default, origin=origin)
    return known[key]


def _rule_map(
    values: RequestValues,
    candidates: tuple[Candidate, ...],
    locations: tuple[str, ...],
    target: str,
    listener: Listener,
) -> tuple[Text, Atom, tuple[Entry, ...]]:
    """The source of a map, its default and its entries; nginx tries regexes in their order."""
    tests = [(c, location) for c, location in zip(candidates, locations, strict=True) if not c.unconditional]
    default = Atom(locations[-1]) if len(tests) < len(candidates) else _NOT_FOUND
    keys = key_variables((c for c, _ in tests), values, target, listener)
    if keys == (METHOD,) and all(len(c.rule.match.conditions) == 1 and c.rule.match.methods for c, _ in tests):
        by_method: dict[str, str] = {}
        for candidate, location in tests:
            for method in candidate.rule.match.methods:
                by_method.setdefault(method, location)
        methods = tuple(Entry(Atom(method), Atom(location)) for method, location in by_method.items())
        return text(inline(METHOD)), default, methods
    entries = tuple(
        Entry(Literal(key_regex(c, keys, values, target, listener), "regex"), Atom(location)) for c, location in tests
    )
    return variables(keys), default, entries


def key_variables(
    candidates: Iterable[Candidate], values: RequestValues, target: str = PATH, listener: Listener | None = None
) -> tuple[str, ...]:
    """The variables that the candidates test, in the order of the key."""
    every = list(candidates)
    every_kind = group((type(each.subject), each) for c in every for each in c.rule.match.conditions)
    keys = dict.fromkeys(
        variable(values, each, listener)
        for kind, variable in _VARIABLES.items()
        for each in sorted(every_kind.get(kind, ()), key=lambda each: each.subject.name)
    )
    if any(c.test_path for c in every):
        keys[target] = None
    return tuple(keys)


def key_regex(
    candidate: Candidate,
    keys: tuple[str, ...],
    values: RequestValues,
    target: str = PATH,
    listener: Listener | None = None,
) -> str:
    """The regex over the key of `keys` that matches the requests of the candidate."""
    match = candidate.rule.match
    if keys == (target,) and match.path_only:
        return f"^{path_regex(match.path)}"
    tests_by_key = _tests(candidate, values, target, listener)
    out = "^"
    last = max(keys.index(key) for key in tests_by_key)
    for at, key in enumerate(keys[: last + 1]):
        tests = tests_by_key.get(key, [])
        # The test of methods ends with the line feed.
        if len(tests) == 1 and (at == last or (key == METHOD and match.methods)):
            out += tests[0]
            continue
        out += "".join(f"(?={test})" for test in tests)
        if at < last:
            out += r"[^\n]*\n"
    return out


def _tests(candidate: Candidate, values: RequestValues, target: str, listener: Listener | None) -> dict[str, list[str]]:
    """Regexes by variable; each starts at the first character of the value and includes its line feed."""
    match = candidate.rule.match
    tests: dict[str, list[str]] = {}
    for each in match.conditions:
        variable = _VARIABLES[type(each.subject)](values, each, listener)
        tests.setdefault(variable, []).append(value_regex(each))
    if candidate.test_path:
        tests[target] = [path_regex(match.path)]
    return tests


def value_regex(condition: Condition) -> str:
    """Matches the value of the condition's variable."""
    text: str = CONDITIONS[condition.kind].render(condition.operator)
    return text


def path_regex(path: Path) -> str:
    """Matches the path as the client sent it."""
    text: str = CONDITIONS[type(path)].render(path.value)
    return text


def _one_of(condition: OneOf) -> str:
    words = "|".join(condition.values)
    return f"{words if len(condition.values) == 1 else f'(?:{words})'}\\n"


def _exact_header(condition: Exact) -> str:
    """The combined value, or one element of its comma-separated list."""
    text = escapes.group(escapes.literal(condition.value), escapes.plain())
    return f"{text}\\n" if "," in condition.value else _ELEMENT.format(text)


def _header_regex(condition: Regex) -> str:
    node = escapes.parse(condition.value)
    one = _ELEMENT.format(escapes.group(node, escapes.plain("\n,")) + r"(?<![ \t])")
    if escapes.may_hold(node, ","):
        one = f"(?:{escapes.group(node, escapes.plain())}\\n|{one})"
    return rf"(?!\n){one}" if matches_whole(condition.value, "") else one


def _present_header(_: Present) -> str:
    return r"(?!(?:, )*\n)"  # several empty lines become a list without elements


def _absent_header(_: Absent) -> str:
    return r"(?:, )*\n"


def _exact_cookie(condition: Exact) -> str:
    """With or without a pair of quotes."""
    value = condition.value
    if ";" in value:
        return _NEVER
    text = escapes.group(escapes.literal(value), escapes.plain())
    quoted = rf"\x22{text}\x22"
    if (len(value) > 1 and value[0] == value[-1] == '"') or value[-1:] in (" ", "\t"):
        return f"={quoted}{_END}"
    return f"=(?:{text}|{quoted}){_END}"


def _cookie_regex(condition: Regex) -> str:
    text = escapes.group(escapes.parse(condition.value), escapes.plain("\n;"))
    return rf"=(?:\x22{text}\x22|(?!\x22[^\n]*\x22{_END}){text}(?<![ \t])){_END}"


def _present_cookie(_: Present) -> str:
    return rf"=(?!(?:\x22\x22)?{_END})"


def _absent_cookie(_: Absent) -> str:
    return rf"(?:=(?:\x22\x22)?)?{_END}"


def _exact_parameter(condition: Exact) -> str:
    """Percent-decoded."""
    return rf"={escapes.encoded_literal(condition.value)}\n"


def _parameter_regex(condition: Regex) -> str:
    return rf"={escapes.encoded_regex(condition.value)}\n"


def _present_parameter(_: Present) -> str:
    return r"=[^\n]"


def _absent_parameter(_: Absent) -> str:
    return r"=?\n"


def _networks(operator: AnyOperator) -> tuple[str, ...]:
    within = operator.operator if isinstance(operator, Not) else operator
    return within.networks if isinstance(within, Within) else ()


def _is_in(_: Within) -> str:
    return r"1\n"


def _not(kind: type[AnySubject]) -> Callable[[Not], str]:
    return lambda condition: f"(?!{CONDITIONS[kind, type(condition.operator)].render(condition.operator)})"


def _exact_path(value: str) -> str:
    return rf"{escapes.path_literal(value)}[?\n]"


def _path_prefix(value: str) -> str:
    return rf"{escapes.path_literal(value.rstrip('/'))}[/?\n]"


def _path_pattern(value: str) -> str:
    return rf"{escapes.group(escapes.parse(value), escapes.plain(chr(10) + '?'))}[?\n]"


_MAPS = emulated("locations for paths, and maps of regexes that select among the rules of a location")
_SOURCES = emulated("a geo block per set of networks, and maps of regexes that select among the rules of a location")
_RAW_QUERY = emulated("regexes over the raw query, since nginx's own $arg_ variables ignore case and do not decode")
_RAW_COOKIE = emulated("regexes over the raw Cookie header, since nginx's own $cookie_ variables ignore case")

# By subject, in the order of a map's key.
_VARIABLES: dict[type[AnySubject], Callable[[RequestValues, Condition, Listener | None], str]] = {
    Method: lambda values, condition, listener: METHOD,
    Header: lambda values, condition, listener: values.header(condition.subject.name, listener),
    Cookie: lambda values, condition, listener: values.cookie(condition.subject.name),
    Query: lambda values, condition, listener: values.parameter(condition.subject.name),
    Source: lambda values, condition, listener: values.client_in(_networks(condition.operator), listener),
}
CONDITIONS: ConditionTable = {
    ExactPath: Rendered(_exact_path, NATIVE),
    PrefixPath: Rendered(
        _path_prefix, emulated("an exact location for the path, and a prefix location for the paths below")
    ),
    RegexPath: Rendered(_path_pattern, _MAPS),
    (Method, OneOf): Rendered(_one_of, _MAPS),
    (Header, Exact): Rendered(_exact_header, _MAPS),
    (Header, Regex): Rendered(_header_regex, _MAPS),
    (Header, Present): Rendered(_present_header, _MAPS),
    (Header, Absent): Rendered(_absent_header, _MAPS),
    (Query, Exact): Rendered(_exact_parameter, _RAW_QUERY),
    (Query, Regex): Rendered(_parameter_regex, _RAW_QUERY),
    (Query, Present): Rendered(_present_parameter, _RAW_QUERY),
    (Query, Absent): Rendered(_absent_parameter, _RAW_QUERY),
    (Cookie, Exact): Rendered(_exact_cookie, _RAW_COOKIE),
    (Cookie, Regex): Rendered(_cookie_regex, _RAW_COOKIE),
    (Cookie, Present): Rendered(_present_cookie, _RAW_COOKIE),
    (Cookie, Absent): Rendered(_absent_cookie, _RAW_COOKIE),
    (Source, Within): Rendered(_is_in, _SOURCES),
    (Method, Not): Rendered(_not(Method), _MAPS),
    (Header, Not): Rendered(_not(Header), _MAPS),
    (Query, Not): Rendered(_not(Query), _RAW_QUERY),
    (Cookie, Not): Rendered(_not(Cookie), _RAW_COOKIE),
    (Source, Not): Rendered(_not(Source), _SOURCES),
}
