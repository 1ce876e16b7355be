"""Jinja2 for text configs: only typed values are printed, and each line remembers the topology field behind it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from operator import call
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from jinja2 import BaseLoader, Environment, FileSystemBytecodeCache, StrictUndefined, Template, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.utils import missing
from markupsafe import Markup
from msgspec import Struct

from lbgen.diagnostics import Diagnostic, LbgenError
from lbgen.engines.lines import split_lines
from lbgen.resources import cache
from lbgen.version import VERSION

if TYPE_CHECKING:
    from jinja2.bccache import Bucket
    from jinja2.runtime import Context

Records = Mapping[type, Callable[[Any, Callable[[object], str]], str]]
Own = Mapping[str, tuple[str, str]]  # place -> topology field and text
NOTHING: Own = MappingProxyType({})
_MARK_OPEN, _MARK_CLOSE = "\x02", "\x03"
_MARK = re.compile(f"{_MARK_OPEN}([^{_MARK_CLOSE}]*){_MARK_CLOSE}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLACE = "!"  # begins no field
_FIELD = re.compile(r"[A-Za-z0-9_.\[\]*-]*")
_INCLUDE = re.compile(r'^[ \t]*\{% include "([^"]+)" %\}\n', re.MULTILINE)
ALLOWED_FILTERS = ("length",)

printed: Callable[[str], Markup] = partial(str.__new__, Markup)
"""The Markup of text that a template printed; Markup's own constructor first looks for other kinds of values."""


class Atom(Struct, frozen=True):
    """Text that goes out as it stands. `Atom.of` checks a grammar; else code, not a user, made every character."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.isprintable() and _CONTROL.search(self.text):
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
        if not self.text.isprintable() and _CONTROL.search(self.text.replace("\n", "").replace("\t", "")):
            raise ValueError(f"control character in literal {self.text!r}")


def environment(
    loader: BaseLoader, quotes: Mapping[str, Callable[[str], str]], records: Records = MappingProxyType({})
) -> Environment:
    """A Jinja2 environment in which `{{ x }}` takes Atom, Literal (by `quotes[x.kind]`), int and the types of
    `records`, which print a record by what prints a value; all else raises."""

    def finalize(value: Any) -> Any:  # noqa: ANN401  # text; a view holds all kinds
        kind = type(value)  # exact ones: a view has no others, and looking for them takes time for every value
        if kind is Atom:
            return value.text
        if kind is Literal:
            return quotes[value.kind](value.text)
        if kind is Markup:
            return value
        if (print_record := records.get(kind)) is not None:
            return print_record(value, finalize)
        if kind is int:
            return str(value)
        raise TypeError(f"{kind.__name__} {value!r} may not be printed; wrap it in Atom or Literal")

    env = _Environment(
        loader=_InliningLoader(loader),
        bytecode_cache=_compiled(),
        auto_reload=False,  # nothing changes them while we run, and looking costs a system call per include
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


class _InliningLoader(BaseLoader):
    """Loads templates with their includes inlined: Jinja's own include makes a context each time."""

    def __init__(self, loader: BaseLoader) -> None:
        self._loader = loader

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        source, filename, is_current = self._loader.get_source(environment, template)
        inlined = _INCLUDE.sub(lambda found: self.get_source(environment, found[1])[0], source)
        return inlined, filename, is_current


class _Generator(CodeGenerator):
    """Prints what `finalize` returns as it is: it decides on every value, so a second look would only take time.

    Attributes and calls are Python's own, since a view has every attribute that a template names.
    """

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo) -> None:
        self.write(finalize.src or "escape(")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo) -> None:
        self.write(")")

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:  # noqa: N802  # as Jinja names it
        self.visit(node.node, frame)
        self.write(f".{node.attr}")

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:  # noqa: N802
        self.write("environment.call_directly(")
        self.visit(node.node, frame)
        self.signature(node, frame, {"caller": "caller"} if forward_caller else None)
        self.write(")")

    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:  # noqa: N802
        if node.name != "none":
            super().visit_Test(node, frame)
            return
        self.write("(")
        self.visit(node.node, frame)
        self.write(" is None)")


class _Template(Template):
    @classmethod
    def _from_namespace(
        cls, environment: Environment, namespace: MutableMapping[str, Any], globals: MutableMapping[str, Any]
    ) -> Template:
        namespace["Markup"] = printed
        return super()._from_namespace(environment, namespace, globals)

    def new_context(
        self, vars: dict[str, Any] | None = None, shared: bool = False, locals: Mapping[str, Any] | None = None
    ) -> Context:
        """Like Jinja's own, but an include of many does not list the globals anew."""
        if not shared or vars is None:
            return super().new_context(vars, shared, locals)
        known = {**vars, **{name: value for name, value in (locals or {}).items() if value is not missing}}
        return self.environment.context_class(self.environment, known, self.name, self.blocks)


class _Environment(Environment):
    code_generator_class = _Generator
    template_class = _Template
    call_directly: Any = staticmethod(cast("Any", call))

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  # as Jinja has them
        super().__init__(**options)
        self._loaded: dict[str, Template] = {}

    def get_template(
        self, name: str | Template, parent: str | None = None, globals: MutableMapping[str, Any] | None = None
    ) -> Template:
        """Like Jinja's own, which looks for a changed file and takes a lock for each include."""
        if not isinstance(name, str) or name not in self._loaded:
            return self._loaded.setdefault(str(name), super().get_template(name, parent, globals))
        return self._loaded[name]


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates on disk, as Python keeps its modules: compiling one costs more than rendering it."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):  # a full or read-only disk costs time, nothing else
            super().dump_bytecode(bucket)


def _compiled() -> _Compiled | None:
    place = cache(f"typed-templates-{VERSION}")  # others were compiled before `_Generator`
    return _Compiled(str(place)) if place is not None else None


def _at(origin: Atom | None = None) -> Markup:
    """In a template, alone on a line: the lines that follow come from this topology field (none without argument)."""
    text = origin.text if origin is not None else ""
    if not _FIELD.fullmatch(text):
        raise ValueError(f"{text!r} is not a topology field")
    return printed(f"{_MARK_OPEN}{text}{_MARK_CLOSE}")


def without_marks(lines: Iterable[str]) -> Iterator[str]:
    """`lines` of a template's output, which have no blanks around them, but not those that are a mark of `at()` or
    `verbatim()` and nothing else."""
    return (line for line in lines if line[0] != _MARK_OPEN or _MARK.sub("", line).strip())


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
        if _MARK_OPEN in line:
            if line[0] == _MARK_OPEN and line.find(_MARK_CLOSE) == len(line) - 1:  # most stand alone
                mark, line = line[1:-1], ""
            else:
                mark = _MARK.findall(line)[-1]
                line = _MARK.sub("", line)
            if mark.startswith(_PLACE):
                origin, found = own.get(mark.removeprefix(_PLACE), ("", ""))
                added = [f"{line}{each}".rstrip() for each in split_lines(found)]
                lines += added
                origins += [origin] * len(added)
                continue
            current = mark
            if not line.strip():
                continue
        lines.append(line)
        origins.append(current)
    if lines and not lines[-1]:
        origins.pop()
    return "\n".join(lines), tuple(origins)
