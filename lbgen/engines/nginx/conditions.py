"""What a rule asks for beside its location -> one regex over a key that holds all that is asked, a line for each part.

The key of a map is the values its rules look at, each ended by a line feed, which no header or target can hold.
nginx's own `$arg_x` and `$cookie_x` ignore case and take names apart differently, so the raw query and the raw Cookie
header are read instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines import escapes
from lbgen.plan.model import PathKind, ValueKind
from lbgen.plan.regex import full

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.tree import Candidate
    from lbgen.plan.model import NamedMatch, ValueMatch

METHOD, COOKIES, QUERY, PATH = "request_method", "http_cookie", "args", "request_uri"
_HEADER = "http_"
_NEVER = "(?!)"


def variable(header: str) -> str:
    """nginx's variable for a request header."""
    return _HEADER + header.replace("-", "_")


def inputs(candidates: Iterable[Candidate]) -> tuple[str, ...]:
    """The variables that tell the candidates apart, in the order of the key."""
    every = list(candidates)
    matches = [c.rule.match for c in every]
    found = [METHOD] if any(m.methods for m in matches) else []
    found += sorted({variable(h.name) for m in matches for h in m.headers})
    if any(m.cookies for m in matches):
        found.append(COOKIES)
    if any(m.query for m in matches):
        found.append(QUERY)
    if any(c.test_path for c in every):
        found.append(PATH)
    return tuple(found)


def pattern(candidate: Candidate, keys: tuple[str, ...]) -> str:
    """The regex over the key made of `keys` that holds when the candidate takes the request."""
    asked = _asked(candidate)
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


def _asked(candidate: Candidate) -> dict[str, list[str]]:
    """Regexes by variable; each begins at the value's first character and knows that a line feed ends it."""
    match = candidate.rule.match
    asked: dict[str, list[str]] = {}
    if match.methods:
        methods = "|".join(match.methods)
        asked[METHOD] = [f"{methods if len(match.methods) == 1 else f'(?:{methods})'}\\n"]
    for wanted in match.headers:
        asked.setdefault(variable(wanted.name), []).append(header(wanted.value))
    for wanted in match.cookies:
        asked.setdefault(COOKIES, []).append(cookie(wanted))
    for wanted in match.query:
        asked.setdefault(QUERY, []).append(query(wanted))
    if candidate.test_path:
        asked[PATH] = [path(match.path.kind, match.path.value)]
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
            return rf"(?!\n){one}" if full(wanted.value, "") else one
        case ValueKind.PRESENT:
            return r"(?!(?:, )*\n)"  # several empty lines become a list of nothing
        case _:
            assert_never(wanted.kind)


def cookie(wanted: NamedMatch) -> str:
    """The first cookie of that name; one pair of quotes around the value does not count."""
    name = escapes.group(escapes.literal(wanted.name), escapes.plain())
    first = rf"(?:(?![ \t]*{name}=)[^;\n]*;)*+[ \t]*{name}="
    return first + _cookie_value(wanted.value)


def _cookie_value(wanted: ValueMatch) -> str:
    end = r"[ \t]*[;\n]"
    match wanted.kind:
        case ValueKind.EXACT:
            value = wanted.value
            if ";" in value:
                return _NEVER
            text = escapes.group(escapes.literal(value), escapes.plain())
            quoted = rf"\x22{text}\x22"
            if (len(value) > 1 and value[0] == value[-1] == '"') or value[-1:] in (" ", "\t"):
                return quoted + end
            return f"(?:{text}|{quoted}){end}"
        case ValueKind.REGEX:
            text = escapes.group(escapes.parse(wanted.value), escapes.plain("\n;"))
            return rf"(?:\x22{text}\x22|(?!\x22[^;\n]*\x22{end}){text}(?<![ \t])){end}"
        case ValueKind.PRESENT:
            return rf"(?!(?:\x22\x22)?{end})"
        case _:
            assert_never(wanted.kind)


def query(wanted: NamedMatch) -> str:
    """The first parameter of that name, as it stands in the URL; its value percent-decoded."""
    name = escapes.group(escapes.literal(wanted.name), escapes.plain())
    first = rf"(?:(?!{name}[=&\n])[^&\n]*&)*+{name}"
    value = wanted.value
    match value.kind:
        case ValueKind.EXACT:
            return rf"{first}={escapes.encoded_literal(value.value)}[&\n]"
        case ValueKind.REGEX:
            some = f"={escapes.encoded_regex(value.value)}"
            return rf"{first}{f'(?:{some})?' if full(value.value, '') else some}[&\n]"
        case ValueKind.PRESENT:
            return rf"{first}=[^&\n]"
        case _:
            assert_never(value.kind)


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
