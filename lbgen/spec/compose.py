"""Parses YAML text into a tree of nodes with places; limits depth and number, and explains syntax errors."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import repeat, starmap
from typing import Any, cast

import yaml
from yaml.composer import Composer
from yaml.nodes import Node, ScalarNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from lbgen.diagnostics import Diagnostic, LbgenError, Span

MOST_NODES = 500_000  # keys and values
DEEPEST = 64  # levels of nesting

# The tag of a node: read by its text, taken as it stands, or not a scalar. No tag that a user writes holds a NUL.
PLAIN = "\0plain"
TEXT = "\0text"
COLLECTION = "\0collection"

_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ASCII_TEXT = bytes({*b"\t\n\r", *range(0x20, 0x7F)})


class _Stop(Exception):  # noqa: N818  # leaves the parser early
    def __init__(self, message: str, mark: Any) -> None:  # noqa: ANN401  # a mark of either parser
        super().__init__(message)
        self.message = message
        self.mark = mark


class _Policy:
    """The callbacks of PyYAML's composers: tags, and limits."""

    depth = 0
    nodes = 0

    def descend_resolver(self, parent: Node | None, index: object) -> None:
        self.depth += 1
        self.nodes += 1
        if self.depth > DEEPEST:
            raise _Stop(f"nested deeper than {DEEPEST} levels", parent.start_mark if parent else None)
        if self.nodes > MOST_NODES:
            raise _Stop(f"more than {MOST_NODES} keys and values", parent.start_mark if parent else None)

    def ascend_resolver(self) -> None:
        self.depth -= 1

    def resolve(self, node: type[Node], value: str | None, implicit: Any) -> str:  # noqa: ANN401  # as PyYAML has it
        if node is not ScalarNode:
            return COLLECTION
        return PLAIN if implicit[0] else TEXT


class _PythonComposer(Reader, Scanner, Parser, Composer, _Policy):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)


_composer: type[Any] = _PythonComposer
_fast_composer: type[Any] | None = None
if yaml.__with_libyaml__:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]  # the stubs leave it out

    class _LibyamlComposer(CParser, _Policy):
        pass

    class _FastComposer(CParser):
        """The same limits, kept by functions written in C, as PyYAML calls them for each node."""

        def __init__(self, text: str) -> None:
            super().__init__(text)
            self._around: dict[Node | None, object] = {}  # a stack: the collections around a node
            self.descend_resolver = self._around.setdefault
            self.ascend_resolver = starmap(self._around.popitem, repeat((), MOST_NODES)).__next__

        def resolve(self, node: type[Node], value: str | None, implicit: tuple[bool, bool]) -> str:
            if node is ScalarNode:
                return PLAIN if implicit[0] else TEXT
            if len(self._around) >= DEEPEST:
                raise _Stop("a value inside would be nested too deep", None)
            return COLLECTION

    _composer, _fast_composer = _LibyamlComposer, _FastComposer


def find_control_character(text: str) -> re.Match[str] | None:
    """The first character that YAML text does not hold."""
    if text.isascii() and not text.encode().translate(None, _ASCII_TEXT):  # a sixth of the time of a search
        return None
    return _NOT_TEXT.search(text)


def compose(text: str, file: str) -> Node:
    """The root node of one document. Raises LbgenError: LB100, LB107 (several documents), LB108."""
    try:
        root = _root(text)
    except _Stop as stop:
        raise LbgenError(Diagnostic("LB108", stop.message, _span_of_mark(stop.mark, file))) from None
    except yaml.MarkedYAMLError as error:
        raise LbgenError(_unreadable(error, text, file)) from None
    except yaml.YAMLError as error:
        raise LbgenError(Diagnostic("LB100", str(error).splitlines()[0], Span(file))) from None
    except RecursionError:
        raise LbgenError(Diagnostic("LB108", f"nested deeper than {DEEPEST} levels", Span(file))) from None
    if root is None:
        raise LbgenError(Diagnostic("LB100", "the file is empty", Span(file), hint="lbgen init writes a topology"))
    return root


def _root(text: str) -> Node | None:
    if _fast_composer is not None and "!" not in text:  # for a tagged collection PyYAML does not call `resolve`
        with suppress(StopIteration, _Stop, yaml.YAMLError):  # the other composer says why, and where
            return cast("Node | None", _fast_composer(text).get_single_node())
    return cast("Node | None", _composer(text).get_single_node())


def _span_of_mark(mark: Any, file: str) -> Span:  # noqa: ANN401  # a mark of either parser
    return Span(file, mark.line + 1, mark.column + 1) if mark is not None else Span(file)


def _unreadable(error: yaml.MarkedYAMLError, text: str, file: str) -> Diagnostic:
    span = _span_of_mark(error.problem_mark or error.context_mark, file)
    if "expected a single document" in (error.context or ""):
        return Diagnostic("LB107", "a second document begins", span, hint="write one topology per file")
    problem = error.problem or error.context or "not YAML"
    lines = text.splitlines()
    line = lines[span.line - 1] if 0 < span.line <= len(lines) else ""
    hint = "indent with spaces, not tabs" if "\t" in line[: len(line) - len(line.lstrip())] else ""
    if not hint and "${" in line:
        hint = 'inside { } and [ ] a variable needs quotes: "${NAME}"'
    if not hint and error.context and error.context_mark is not None:
        hint = f"{error.context} that begins in line {error.context_mark.line + 1}"
    if not hint and line[span.column - 1 : span.column] in ("@", "`", "%", "*", "&"):
        hint = f"a text that begins with {line[span.column - 1]} needs quotes"
    return Diagnostic("LB100", problem, span, hint=hint)
