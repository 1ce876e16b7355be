"""Jinja2 for text configs: only typed values are printed, and each line remembers the topology field behind it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jinja2 import BaseLoader, Environment, FileSystemBytecodeCache, StrictUndefined, Undefined
from markupsafe import Markup
from msgspec import Struct

from lbgen.diagnostics import Diagnostic, LbgenError
from lbgen.engines.api import split_lines
from lbgen.resources import cache
from lbgen.version import VERSION

if TYPE_CHECKING:
    from jinja2.bccache import Bucket

Types = Mapping[type, Callable[[Any], str]]
Own = Mapping[str, tuple[str, str]]  # place -> topology field and text
NOTHING: Own = MappingProxyType({})
_MARK_OPEN, _MARK_CLOSE = "\x02", "\x03"
_MARK = re.compile(f"{_MARK_OPEN}([^{_MARK_CLOSE}]*){_MARK_CLOSE}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLACE = "!"  # begins no field
_FIELD = re.compile(r"[A-Za-z0-9_.\[\]*-]*")
ALLOWED_FILTERS = ("length",)


class Atom(Struct, frozen=True):
    """Text that goes out as it stands. `Atom.of` checks a grammar; else code, not a user, made every character."""

    text: str

    def __post_init__(self) -> None:
        if _CONTROL.search(self.text):
            raise ValueError(f"control character in atom {self.text!r}")

    @classmethod
    def of(cls, pattern: str, text: str) -> Atom:
        """`text` when all of it matches `pattern`; ValueError otherwise."""
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is not of the form {pattern}")
        return cls(text)


class Literal(Struct, frozen=True):
    """Free text of a user; the engine's quote function for `kind` puts it out so that it comes back unchanged."""

    text: str
    kind: str = "word"

    def __post_init__(self) -> None:
        if _CONTROL.search(self.text.replace("\n", "").replace("\t", "")):
            raise ValueError(f"control character in literal {self.text!r}")


def printed(text: str) -> Markup:
    """Text that a template puts out as it is."""
    return str.__new__(Markup, text)  # Markup's own constructor makes two calls more, for each value of each line


def environment(
    loader: BaseLoader, quotes: Mapping[str, Callable[[str], str]], types: Types = MappingProxyType({})
) -> Environment:
    """A Jinja2 environment in which `{{ x }}` takes Atom, Literal (by `quotes[x.kind]`), int and the engine's own
    quoting `types`; all else raises."""

    def finalize(value: object) -> Markup:
        match value:
            case Markup():
                return value  # of a macro, a block or a function of the environment
            case Atom():
                return printed(value.text)
            case Literal():
                return printed(quotes[value.kind](value.text))
            case Undefined():
                return printed(str(value))  # raises, with its name
        if type(value) in types:
            return printed(types[type(value)](value))
        if type(value) is int:
            return printed(str(value))
        raise TypeError(f"{type(value).__name__} {value!r} may not be printed; wrap it in Atom or Literal")

    place = cache(f"jinja-{VERSION}")
    env = Environment(
        loader=loader,
        bytecode_cache=_Compiled(str(place)) if place is not None else None,
        auto_reload=False,
        undefined=StrictUndefined,
        autoescape=True,  # what macros return is Markup, and no other text passes `finalize`
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters = {name: env.filters[name] for name in ALLOWED_FILTERS}
    env.globals = {"at": _at, "verbatim": _verbatim}
    return env


class _Compiled(FileSystemBytecodeCache):
    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):  # a full or read-only disk costs time, nothing else
            super().dump_bytecode(bucket)


def _at(origin: Atom | None = None) -> Markup:
    """In a template, alone on a line: the lines that follow come from this topology field (none without argument)."""
    text = origin.text if origin is not None else ""
    if not _FIELD.fullmatch(text):
        raise ValueError(f"{text!r} is not a topology field")
    return printed(f"{_MARK_OPEN}{text}{_MARK_CLOSE}")


def without_marks(lines: Iterable[str]) -> Iterator[str]:
    """`lines` of a template's output but for those that are a mark of `at()` or `verbatim()` and nothing else."""
    return (line for line in lines if _MARK_OPEN not in line or _MARK.sub("", line).strip())


def _verbatim(place: str, indent: int = 0) -> Markup:
    """In a template, alone on a line: here goes the topology's own text for this place, if it has any."""
    return printed(f"{' ' * indent}{_MARK_OPEN}{_PLACE}{place}{_MARK_CLOSE}")


def render(env: Environment, template: str, view: object, own: Own = NOTHING) -> tuple[str, tuple[str, ...]]:
    """Template plus view -> (text, the topology field behind each line). The view is reachable as `v`. `own` is what
    the topology has for places (`verbatim.texts`), put in where the template says so; LbgenError LB304 when a
    place is not there this time."""
    text, origins = split_origins(env.get_template(template).render(v=view), own)
    if lost := [field for field, said in own.values() if said.strip() and field not in origins]:
        why = "this configuration has no such place, as nothing of the topology needs it"
        raise LbgenError(tuple(Diagnostic("LB304", why, field=field, hint="leave it out") for field in lost))
    return text, origins


def split_origins(marked: str, own: Own = NOTHING) -> tuple[str, tuple[str, ...]]:
    """Take the marks of `at()` and `verbatim()` out of a rendered text; a line that held only a mark goes away."""
    lines: list[str] = []
    origins: list[str] = []
    current = ""
    for line in marked.split("\n"):
        if marks := _MARK.findall(line):
            line = _MARK.sub("", line)
            if marks[-1].startswith(_PLACE):
                origin, found = own.get(marks[-1].removeprefix(_PLACE), ("", ""))
                added = [f"{line}{each}".rstrip() for each in split_lines(found)]
                lines += added
                origins += [origin] * len(added)
                continue
            current = marks[-1]
            if not line.strip():
                continue
        lines.append(line)
        origins.append(current)
    if lines and not lines[-1]:
        origins.pop()
    return "\n".join(lines), tuple(origins)
