"""Rule matching: maps whose regexes test what a location leaves open, in the order of the rules.

The key of a map holds the values its rules test, each ended by a line feed, which no header or target can contain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.strings import text, variables
from lbgen.engines.nginx.view import Entry, Map
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import PathKind, ValueKind
from lbgen.plan.regex import matches_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.request_values import RequestValues
    from lbgen.plan.model import Listener, ValueMatch
    from lbgen.plan.precedence import Candidate

METHOD, PATH = "request_method", "request_uri"
_NOT_FOUND = Atom("@not_found")
_NEVER = "(?!)"
_END = r"[ \t]*\n"


class RuleMaps:
    """Collects the maps that select a rule's location or pool; equal maps are shared."""

    def __init__(self, names: Names, values: RequestValues) -> None:
        self.maps: list[Map] = []
        self._names = names
        self._values = values
        self._known: dict[tuple[str, str, tuple[tuple[str, bool, str], ...]], str] = {}
        self._by_content: dict[tuple[object, ...], Map] = {}

    def variable(
        self, candidates: tuple[Candidate, ...], results: tuple[str, ...], target: str, listener: Listener
    ) -> str:
        """The variable with the result of the first candidate that matches, `@not_found` when none does."""
        rules = tuple((c.rule.id, c.test_path, result) for c, result in zip(candidates, results, strict=True))
        key = (target, self._values.trusted(listener), rules)
        if key not in self._known:
            name = self._names.variable("route", results[0].removeprefix("@"))
            made = self._map(name, candidates, results, target, listener)
            known = self._by_content.setdefault((made.source, made.default, made.entries), made)
            if known is made:
                self.maps.append(made)
            self._known[key] = known.name.text.removeprefix("$")
        return self._known[key]

    def _map(
        self, name: str, candidates: tuple[Candidate, ...], results: tuple[str, ...], target: str, listener: Listener
    ) -> Map:
        """nginx tries the regexes of a map in their order."""
        origin = Atom(candidates[0].rule.field)
        tests = [(c, result) for c, result in zip(candidates, results, strict=True) if not c.unconditional]
        default = Atom(results[-1]) if len(tests) < len(candidates) else _NOT_FOUND
        keys = key_variables((c for c, _ in tests), self._values, target, listener)
        if keys == (METHOD,):
            by_method: dict[str, str] = {}
            for candidate, result in tests:
                for method in candidate.rule.match.methods:
                    by_method.setdefault(method, result)
            methods = tuple(Entry(Atom(method), Atom(result)) for method, result in by_method.items())
            return Map(origin, text(inline(METHOD)), reference(name), default, methods)
        entries = tuple(
            Entry(Literal(key_regex(c, keys, self._values, target, listener), "regex"), Atom(result))
            for c, result in tests
        )
        return Map(origin, variables(keys), reference(name), default, entries)


def key_variables(
    candidates: Iterable[Candidate], values: RequestValues, target: str = PATH, listener: Listener | None = None
) -> tuple[str, ...]:
    """The variables that the candidates test, in the order of the key."""
    every = list(candidates)
    matches = [c.rule.match for c in every]
    keys = [METHOD] if any(m.methods for m in matches) else []
    keys += sorted({values.header(x.name, listener) for m in matches for x in m.headers})
    keys += [values.cookie(name) for name in sorted({x.name for m in matches for x in m.cookies})]
    keys += [values.parameter(name) for name in sorted({x.name for m in matches for x in m.query})]
    if any(c.test_path for c in every):
        keys.append(target)
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
        return f"^{path_regex(match.path.kind, match.path.value)}"
    tests_by_key = _tests(candidate, values, target, listener)
    out = "^"
    last = max(keys.index(key) for key in tests_by_key)
    for at, key in enumerate(keys[: last + 1]):
        tests = tests_by_key.get(key, [])
        if len(tests) == 1 and (at == last or key == METHOD):  # that of a method ends with the line feed
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
    if match.methods:
        methods = "|".join(match.methods)
        tests[METHOD] = [f"{methods if len(match.methods) == 1 else f'(?:{methods})'}\\n"]
    for x in match.headers:
        tests.setdefault(values.header(x.name, listener), []).append(header_regex(x.value))
    for x in match.cookies:
        tests.setdefault(values.cookie(x.name), []).append(cookie_regex(x.value))
    for x in match.query:
        tests.setdefault(values.parameter(x.name), []).append(parameter_regex(x.value))
    if candidate.test_path:
        tests[target] = [path_regex(match.path.kind, match.path.value)]
    return tests


def header_regex(condition: ValueMatch) -> str:
    """Matches the combined value, or one element of its comma-separated list."""
    element = r"(?:[^\n]*,)?[ \t]*{}[ \t]*[,\n]"
    match condition.kind:
        case ValueKind.EXACT:
            text = escapes.group(escapes.literal(condition.value), escapes.plain())
            return f"{text}\\n" if "," in condition.value else element.format(text)
        case ValueKind.REGEX:
            node = escapes.parse(condition.value)
            one = element.format(escapes.group(node, escapes.plain("\n,")) + r"(?<![ \t])")
            if escapes.may_hold(node, ","):
                one = f"(?:{escapes.group(node, escapes.plain())}\\n|{one})"
            return rf"(?!\n){one}" if matches_whole(condition.value, "") else one
        case ValueKind.PRESENT:
            return r"(?!(?:, )*\n)"  # several empty lines become a list without elements
        case _:
            assert_never(condition.kind)


def cookie_regex(condition: ValueMatch) -> str:
    """Matches a cookie's value, with or without a pair of quotes."""
    match condition.kind:
        case ValueKind.EXACT:
            value = condition.value
            if ";" in value:
                return _NEVER
            text = escapes.group(escapes.literal(value), escapes.plain())
            quoted = rf"\x22{text}\x22"
            if (len(value) > 1 and value[0] == value[-1] == '"') or value[-1:] in (" ", "\t"):
                return f"={quoted}{_END}"
            return f"=(?:{text}|{quoted}){_END}"
        case ValueKind.REGEX:
            text = escapes.group(escapes.parse(condition.value), escapes.plain("\n;"))
            return rf"=(?:\x22{text}\x22|(?!\x22[^\n]*\x22{_END}){text}(?<![ \t])){_END}"
        case ValueKind.PRESENT:
            return rf"=(?!(?:\x22\x22)?{_END})"
        case _:
            assert_never(condition.kind)


def parameter_regex(condition: ValueMatch) -> str:
    """Matches the percent-decoded value of a query parameter."""
    match condition.kind:
        case ValueKind.EXACT:
            return rf"={escapes.encoded_literal(condition.value)}\n"
        case ValueKind.REGEX:
            return rf"={escapes.encoded_regex(condition.value)}\n"
        case ValueKind.PRESENT:
            return r"=[^\n]"
        case _:
            assert_never(condition.kind)


def path_regex(kind: PathKind, value: str) -> str:
    """Matches the path as the client sent it."""
    match kind:
        case PathKind.EXACT:
            return rf"{escapes.path_literal(value)}[?\n]"
        case PathKind.PREFIX:
            return rf"{escapes.path_literal(value.rstrip('/'))}[/?\n]"
        case PathKind.REGEX:
            return rf"{escapes.group(escapes.parse(value), escapes.plain(chr(10) + '?'))}[?\n]"
        case _:
            assert_never(kind)
