"""Parameters of free text and variables: how they are quoted, one function per kind of place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markupsafe import Markup

from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.statements import NONE, Line, Text
from lbgen.engines.text import Atom, Literal, Types, printed, without_marks

MAX_LENGTH = 3000
"""Bytes of one parameter; nginx reads its file through a buffer of 4096."""

_SPECIAL_KEYS = frozenset({"default", "hostnames", "include", "volatile"})
_BARE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_./-]*")
_UNSAFE_IN_REGEX = re.compile(r"[^\x20-\x7e]|\"|\\[\\\"']")


def part(text: str) -> str:
    """Inside double quotes where variables are expanded; the variable `$dollar` replaces `$`, which has no escape."""
    return _escaped(text).replace("$", "${dollar}")


def word(text: str) -> str:
    """A parameter where nothing is expanded: paths of locations, default_type."""
    return text if _BARE.fullmatch(text) else f'"{_escaped(text)}"'


def key(text: str) -> str:
    """A key that a map compares as text."""
    mark = "\\" if text in _SPECIAL_KEYS or text[:1] in ("~", "\\") else ""
    return text if not mark and _BARE.fullmatch(text) else f'"{mark}{_escaped(text)}"'


def regex(text: str) -> str:
    """A case-sensitive regex of a map. ValueError when nginx's quoting would change it."""
    if _UNSAFE_IN_REGEX.search(text):
        raise ValueError(f"{text!r} does not survive nginx's quoting")
    return f'"~{text}"'


def size(text: str) -> int:
    """The bytes of `part(text)`."""
    return len(part(text).encode())


def pieces(text: str, limit: int = MAX_LENGTH) -> tuple[str, ...]:
    """`text` in pieces of at most `limit` bytes each after `part`."""
    if size(text) <= limit:
        return (text,)
    out: list[str] = []
    start = used = 0
    for at, char in enumerate(text):
        more = size(char)
        if used + more > limit:
            out.append(text[start:at])
            start, used = at, 0
        used += more
    return (*out, text[start:])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


QUOTES = {"part": part, "word": word, "key": key, "regex": regex}


def text(*parts: str | Atom) -> Text:
    """A parameter; strings are free text, atoms are variables. ValueError for `$`, which `Definitions` can write."""
    return joined([_part(part) for part in parts])


def _part(part: str | Atom) -> Atom | Literal:
    if isinstance(part, Atom):
        return part
    if "$" in part:
        raise ValueError(f"{part!r} holds a dollar sign")
    return Literal(part, "part")


def joined(parts: list[Atom | Literal]) -> Text:
    bare = None
    if len(parts) == 1:
        only = parts[0]
        if isinstance(only, Literal):
            return Text((only,), Atom(only.text) if _BARE.fullmatch(only.text) else None)
        bare = Atom(only.text.replace("{", "").replace("}", ""))
    return Text(tuple(map(_without_braces, parts, (*parts[1:], None))), bare)


def _without_braces(part: Atom | Literal, after: Atom | Literal | None) -> Atom | Literal:
    """A variable without the braces that only text behind it makes necessary."""
    if isinstance(part, Literal) or not part.text.startswith("${"):
        return part
    if isinstance(after, Literal) and (not after.text or after.text[0].isalnum() or after.text[0] in "_{"):
        return part
    return Atom(f"${part.text[2:-1]}")


EMPTY = Text(())
_MOST_ON_A_LINE, _LINE_LENGTH, _SHORT = 4, 140, 90


def variables(names: Iterable[str], end: str = "\n") -> Text:
    """The values of variables, each followed by `end`: the key of a map that compares several values."""
    return text(*(part for name in names for part in (inline(name), end)))


def directive(name: str, *args: str | Atom | Literal | Text, origin: Atom = NONE) -> Line:
    """A simple directive; strings are words of the configuration, not free text."""
    return Line(Atom(name), tuple(Atom(arg) if isinstance(arg, str) else arg for arg in args), origin)


def _shown(value: Text) -> str:
    if value.bare is not None:
        return value.bare.text
    return f'"{"".join(QUOTES[x.kind](x.text) if isinstance(x, Literal) else x.text for x in value.parts)}"'


TYPES: Types = {Text: _shown}


def block(indent: int, heads: Markup, body: Markup) -> Markup:
    """A block of the configuration for each line of `heads`: on one line where it holds up to four short directives and
    nothing else."""
    lines = list(_bare_lines(body))
    inside = f" {{ {' '.join(lines)} }}" if lines else " { }"
    is_short = len(lines) <= _MOST_ON_A_LINE and "#" not in inside
    room = _LINE_LENGTH - indent - len(inside) if is_short else 0
    every, pad = str(heads).strip().split("\n"), " " * indent
    inner = ""
    if max(map(len, every)) > room:
        inner = "".join([f"{line}\n" for line in filter(str.strip, str(body).split("\n"))])
    return printed(
        "\n".join(
            [f"{pad}{head}{inside}" if len(head) <= room else f"{pad}{head} {{\n{inner}{pad}}}" for head in every]
        )
    )


def _bare_lines(body: Markup) -> Iterator[str]:
    """The lines without the blanks around them, empty ones and marks."""
    return without_marks(filter(None, map(str.strip, str(body).split("\n"))))


def short(indent: int, body: Markup) -> Markup:
    """Up to four directives of one kind: on one line where they are short."""
    lines = list(_bare_lines(body))
    if len(lines) > _MOST_ON_A_LINE or sum(map(len, lines)) > _SHORT:
        return body
    return printed(f"{' ' * indent}{' '.join(lines)}")


def one_line(body: Markup) -> Markup:
    """Directives with a blank between each."""
    return printed(" ".join(str(body).split()))


def unindent(body: Markup) -> Markup:
    """The lines of a block's body as a file of their own."""
    lines = [line for line in body.split("\n") if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line[0] == " "), default=0)
    return Markup("\n").join(
        line[margin:] if line[0] == " " else line for line in lines
    )  # marks of `at` are not indented
