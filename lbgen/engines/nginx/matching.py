"""What a rule asks for beside its location -> one regex over a key that holds all that is asked, a line for each part.

The key of a map is the values its rules look at, each ended by a line feed, which no header or target can hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines import escapes
from lbgen.plan.model import PathKind, ValueKind
from lbgen.plan.regex import matches_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.location_tree import Candidate
    from lbgen.engines.nginx.request_values import Values
    from lbgen.plan.model import ValueMatch

METHOD, PATH = "request_method", "request_uri"
_NEVER = "(?!)"
_END = r"[ \t]*\n"


def variable(header: str) -> str:
    """nginx's variable for a request header."""
    return "http_" + header.replace("-", "_")


def inputs(candidates: Iterable[Candidate], values: Values, target: str = PATH) -> tuple[str, ...]:
    """The variables that tell the candidates apart, in the order of the key."""
    every = list(candidates)
    matches = [c.rule.match for c in every]
    found = [METHOD] if any(m.methods for m in matches) else []
    found += sorted({variable(x.name) for m in matches for x in m.headers})
    found += [values.cookie(name) for name in sorted({x.name for m in matches for x in m.cookies})]
    found += [values.parameter(name) for name in sorted({x.name for m in matches for x in m.query})]
    if any(c.test_path for c in every):
        found.append(target)
    return tuple(found)


def pattern(candidate: Candidate, keys: tuple[str, ...], values: Values, target: str = PATH) -> str:
    """The regex over the key made of `keys` that holds when the candidate takes the request."""
    asked = _asked(candidate, values, target)
    out = "^"
    last = max(keys.index(key) for key in asked)
    for at, key in enumerate(keys[: last + 1]):
        tests = asked.get(key, [])
        if at == last and len(tests) == 1:
            return out + tests[0]
        out += "".join(f"(?={test})" for test in tests)
        if at < last:
            out += r"[^\n]*\n"
    return out


def _asked(candidate: Candidate, values: Values, target: str) -> dict[str, list[str]]:
    """Regexes by variable; each begins at the value's first character and knows that a line feed ends it."""
    match = candidate.rule.match
    asked: dict[str, list[str]] = {}
    if match.methods:
        methods = "|".join(match.methods)
        asked[METHOD] = [f"{methods if len(match.methods) == 1 else f'(?:{methods})'}\\n"]
    for wanted in match.headers:
        asked.setdefault(variable(wanted.name), []).append(header(wanted.value))
    for wanted in match.cookies:
        asked.setdefault(values.cookie(wanted.name), []).append(cookie(wanted.value))
    for wanted in match.query:
        asked.setdefault(values.parameter(wanted.name), []).append(parameter(wanted.value))
    if candidate.test_path:
        asked[target] = [path(match.path.kind, match.path.value)]
    return asked


def header(wanted: ValueMatch) -> str:
    """The combined value, or one element of the list that it is."""
    element = r"(?:[^\n]*,)?[ \t]*{}[ \t]*[,\n]"
    match wanted.kind:
        case ValueKind.EXACT:
            text = escapes.group(escapes.literal(wanted.value), escapes.plain())
            return f"{text}\\n" if "," in wanted.value else element.format(text)
        case ValueKind.REGEX:
            node = escapes.parse(wanted.value)
            one = element.format(escapes.group(node, escapes.plain("\n,")) + r"(?<![ \t])")
            if escapes.may_hold(node, ","):
                one = f"(?:{escapes.group(node, escapes.plain())}\\n|{one})"
            return rf"(?!\n){one}" if matches_whole(wanted.value, "") else one
        case ValueKind.PRESENT:
            return r"(?!(?:, )*\n)"  # several empty lines become a list of nothing
        case _:
            assert_never(wanted.kind)


def cookie(wanted: ValueMatch) -> str:
    """A cookie's value; one pair of quotes around it does not count."""
    match wanted.kind:
        case ValueKind.EXACT:
            value = wanted.value
            if ";" in value:
                return _NEVER
            text = escapes.group(escapes.literal(value), escapes.plain())
            quoted = rf"\x22{text}\x22"
            if (len(value) > 1 and value[0] == value[-1] == '"') or value[-1:] in (" ", "\t"):
                return f"={quoted}{_END}"
            return f"=(?:{text}|{quoted}){_END}"
        case ValueKind.REGEX:
            text = escapes.group(escapes.parse(wanted.value), escapes.plain("\n;"))
            return rf"=(?:\x22{text}\x22|(?!\x22[^\n]*\x22{_END}){text}(?<![ \t])){_END}"
        case ValueKind.PRESENT:
            return rf"=(?!(?:\x22\x22)?{_END})"
        case _:
            assert_never(wanted.kind)


def parameter(wanted: ValueMatch) -> str:
    """A query parameter's value, percent-decoded."""
    match wanted.kind:
        case ValueKind.EXACT:
            return rf"={escapes.encoded_literal(wanted.value)}\n"
        case ValueKind.REGEX:
            return rf"={escapes.encoded_regex(wanted.value)}\n"
        case ValueKind.PRESENT:
            return r"=[^\n]"
        case _:
            assert_never(wanted.kind)


def path(kind: PathKind, value: str) -> str:
    """The path as it was sent."""
    match kind:
        case PathKind.EXACT:
            return rf"{escapes.path_literal(value)}[?\n]"
        case PathKind.PREFIX:
            return rf"{escapes.path_literal(value.rstrip('/'))}[/?\n]"
        case PathKind.REGEX:
            return rf"{escapes.group(escapes.parse(value), escapes.plain(chr(10) + '?'))}[?\n]"
        case _:
            assert_never(kind)
