"""Parses YAML text into a tree of nodes with places; limits depth and number, and explains syntax errors."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any, cast

import yaml
from yaml.nodes import Node, ScalarNode

from lbgen.diagnostics import Diagnostic, LbgenError, Span

MOST_NODES = 500_000  # keys and values
DEEPEST = 64  # levels of nesting
LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

# The tag of a node: read by its text, taken as it stands, or not a scalar. No tag that a user writes holds a NUL.
PLAIN = "\0plain"
TEXT = "\0text"
COLLECTION = "\0collection"

# The beginnings of names of texts that lbgen made, whose lines mean nothing to a user.
_WITHOUT_LINES = ("<dict>", "<edit>", "--set ")
_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Stop(Exception):  # noqa: N818  # leaves the parser early
    def __init__(self, message: str, mark: Any) -> None:  # noqa: ANN401  # a mark of either parser
        super().__init__(message)
        self.message = message
        self.mark = mark


class _NamedText(StringIO):
    """A text whose name PyYAML keeps in the marks of all nodes."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


class _Composer(LOADER):  # type: ignore[misc]  # one of two classes
    """Composes nodes with tags of our own, within limits."""

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


def find_control_character(text: str) -> re.Match[str] | None:
    """The first character that YAML text does not hold."""
    return _NOT_TEXT.search(text)


def compose(text: str, file: str) -> Node:
    """The root node of one document. Raises LbgenError: LB100, LB107 (several documents), LB108."""
    try:
        root = cast("Node | None", _Composer(_NamedText(text, file)).get_single_node())
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


def span_of(node: Node) -> Span:
    """The place where `node` begins, in the file that it is from."""
    mark = node.start_mark
    return Span(mark.name) if mark.name.startswith(_WITHOUT_LINES) else _span_of_mark(mark, mark.name)


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
