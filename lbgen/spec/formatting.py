"""Writes YAML in one canonical form and keeps its comments: for `lbgen fmt`.

Indentation of 2, list items below their key indented by 2, `{ a: 1 }` and `[a, b]`, double quotes where the text has
none, two spaces before a comment at the end of a line unless it is in line with the one above or below, at most one
empty line. A collection in braces or brackets whose line is longer than LONGEST is written as a block.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from io import StringIO
from typing import Any, Self

import yaml
from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.emitter import Emitter
from ruamel.yaml.error import YAMLError
from ruamel.yaml.serializer import Serializer
from yaml.nodes import Node, ScalarNode

from lbgen.diagnostics import Diagnostic, LbgenError, Span
from lbgen.spec.compose import LOADER
from lbgen.spec.source import decode, parse

LONGEST = 120  # characters of a line
_UNLIMITED = 1 << 30
_COMMENT = re.compile(r"#[^\n]*")
_MAY_BE_DOUBLE = re.compile(r'[^"\\\x00-\x1f\x7f-\x9f]*')


def format_yaml(raw: bytes, file: str) -> str:
    """The canonical form of YAML text in UTF-8; `file` is its name in findings.

    Raises LbgenError: LB100, LB107 to LB109 (not YAML, as on loading), LB136 (a comment would be lost).
    """
    before, text = parse(raw, file), decode(raw, file)
    written = _Lines.of(text)
    made = _emit(text, frozenset(), file)
    while long := _long_collections(made, file):
        made = _emit(made, long, file)
    if [x.text for x in _comments(made)] != [x.text for x in written.comments]:
        raise LbgenError(_lost(text, made, file))
    made = _tidy(made, _beside_previous(written))
    if _meaning(before) != _meaning(parse(made.encode(), file)):
        message = "its canonical form would not mean the same"
        hint = "where `lbgen check` can read it, this is a fault of lbgen: please report it"
        raise LbgenError(Diagnostic("LB136", message, Span(file), hint=hint))
    return made


class _CanonicalEmitter(Emitter):
    """Writes spaces inside braces, also where a list item is a mapping of one key."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401  # as ruamel.yaml has it
        super().__init__(*args, **options)
        self.brace_single_entry_mapping_in_flow_sequence = True
        self._empty: list[bool] = []

    def write_indicator(
        self, indicator: str, need_whitespace: bool, whitespace: bool = False, indention: bool = False
    ) -> None:
        if indicator.endswith("{"):
            self._empty.append(bool(self.check_empty_mapping()))
            indicator += "" if self._empty[-1] else " "
        elif indicator == "}" and not self._empty.pop():
            indicator = " }"
        super().write_indicator(indicator, need_whitespace, whitespace, indention)


class _NamingSerializer(Serializer):
    """Keeps the names of anchors."""

    def generate_anchor(self, node: Any) -> str:  # noqa: ANN401  # ruamel.yaml's node
        return str(node.anchor)


def _emit(text: str, blocks: frozenset[int], file: str) -> str:
    """Write the text anew; the collections whose numbers are in `blocks` as blocks. Raises LbgenError LB136."""
    work = YAML(typ="rt")
    work.Emitter, work.Serializer, work.width = _CanonicalEmitter, _NamingSerializer, _UNLIMITED
    work.indent(mapping=2, sequence=4, offset=2)
    made = StringIO()
    try:
        root = work.compose(StringIO(text))
        for number, node in enumerate(_walk(root)):
            if number in blocks:
                node.flow_style = False
            if getattr(node, "style", "") == "'" and _MAY_BE_DOUBLE.fullmatch(node.value):
                node.style = '"'
        work.serialize(root, made)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        span = Span(file) if mark is None else Span(file, mark.line + 1, mark.column + 1)
        raise LbgenError(Diagnostic("LB136", f"it cannot be read: {str(error).splitlines()[0]}", span)) from None
    return made.getvalue()


def _walk(node: Any) -> Iterator[Any]:  # noqa: ANN401  # a node of PyYAML or of ruamel.yaml
    """All nodes in the order of the text; what an alias names only once."""
    seen: set[int] = set()
    pending = [node]
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each.value, list):
            inner = [x for entry in each.value for x in (entry if isinstance(entry, tuple) else (entry,))]
            pending += reversed(inner)


def _long_collections(text: str, file: str) -> frozenset[int]:
    """The numbers of the outermost flow collections that hold something and whose line is too long."""
    lines = text.split("\n")
    ends = {x.line: x.column for x in _comments(text)}
    found: dict[int, int] = {}
    for number, node in enumerate(_walk(parse(text.encode(), file))):
        if not isinstance(node, ScalarNode) and node.flow_style and node.value:
            line = node.start_mark.line
            if len(lines[line][: ends.get(line)].rstrip()) > LONGEST:
                found.setdefault(line, number)
    return frozenset(found.values())


class _Comment(Struct, frozen=True):
    """`line` and `column` count from 0; `alone`: nothing is before it on its line."""

    line: int
    column: int
    text: str
    alone: bool


def _comments(text: str) -> Iterator[_Comment]:
    """The comments, in order: what lies between tokens, and in the first line of block scalars."""
    lines = text.split("\n")
    line = column = 0
    for token in yaml.scan(text, Loader=LOADER):
        start, end = token.start_mark, token.end_mark
        if (start.line, start.column) >= (line, column):
            yield from _comments_between(lines, (line, column), (start.line, start.column))
        if isinstance(token, yaml.ScalarToken) and token.style in ("|", ">"):
            yield from _comments_between(lines, (start.line, start.column), (start.line, len(lines[start.line])))
        line, column = max((line, column), (end.line, end.column))
    yield from _comments_between(lines, (line, column), (len(lines) - 1, len(lines[-1])))


def _comments_between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> Iterator[_Comment]:
    for number in range(start[0], min(end[0] + 1, len(lines))):
        first = start[1] if number == start[0] else 0
        last = end[1] if number == end[0] else len(lines[number])
        found = _COMMENT.search(lines[number], first, last)
        if found is not None:
            yield _Comment(number, found.start(), found[0].rstrip(), not lines[number][: found.start()].strip())


class _Lines(Struct, frozen=True):
    """The lines of a text; `content` are the numbers of those with more than a comment, `comments` all of them."""

    lines: list[str]
    comments: list[_Comment]
    content: list[int]

    @classmethod
    def of(cls, text: str) -> Self:
        """The lines of `text`."""
        lines, comments = text.split("\n"), list(_comments(text))
        alone = {x.line for x in comments if x.alone}
        return cls(lines, comments, [n for n, line in enumerate(lines) if line.strip() and n not in alone])

    def around(self, line: int) -> tuple[int | None, int | None]:
        """The indentation of the content above and below that line; None where there is none."""
        at = bisect_left(self.content, line)
        above = self.content[at - 1] if at else None
        below = next(iter(self.content[bisect_right(self.content, line) :][:1]), None)
        return self._indentation(above), self._indentation(below)

    def _indentation(self, number: int | None) -> int | None:
        return None if number is None else len(self.lines[number]) - len(self.lines[number].lstrip(" "))


def _beside_previous(before: _Lines) -> list[bool]:
    """For each comment, whether it belongs to what is above it, as opposed to what follows."""
    found = []
    for comment in before.comments:
        above, below = before.around(comment.line)
        found.append(above is not None and comment.column >= above > (below or 0))
    return found


def _tidy(text: str, beside_previous: list[bool]) -> str:
    """Indent comments as what they belong to, place the others, and drop surplus empty lines."""
    now = _Lines.of(text)
    lines = list(now.lines)
    aligned = _aligned(now)
    for comment, beside in zip(now.comments, beside_previous, strict=True):
        if comment.alone:
            above, below = now.around(comment.line)
            lines[comment.line] = " " * ((above if beside else below) or 0) + comment.text
        elif comment.line not in aligned:
            lines[comment.line] = f"{lines[comment.line][: comment.column].rstrip()}  {comment.text}"
    inside = _inside_scalars(lines, text)
    made: list[str] = []
    empty = True  # whether the last line is an empty one that no scalar holds
    for number, line in enumerate(lines):
        if number in inside:
            made.append(line)
            empty = False
        elif line.strip() or not empty:
            made.append(line.rstrip())
            empty = not line.strip()
    return "\n".join(made[:-1] if empty else made) + "\n"


def _aligned(now: _Lines) -> set[int]:
    """The numbers of lines whose comment is in line with that of the line above or below, two spaces from the rest."""
    columns = {x.line: x.column for x in now.comments if not x.alone and now.lines[x.line][: x.column].endswith("  ")}
    return {line for line, column in columns.items() if column in (columns.get(line - 1), columns.get(line + 1))}


def _inside_scalars(lines: list[str], text: str) -> set[int]:
    """The numbers of lines that belong to a scalar which begins on an earlier line."""
    found: set[int] = set()
    for token in yaml.scan(text, Loader=LOADER):
        first, end = token.start_mark.line, token.end_mark
        if not isinstance(token, yaml.ScalarToken) or end.line == first:
            continue
        last = end.line if end.column else end.line - 1
        keeps = token.style in ("|", ">") and "+" in lines[first][token.start_mark.column :].partition("#")[0]
        while not keeps and last > first and not lines[last].strip():
            last -= 1
        found |= {*range(first + 1, last + 1)}
    return found


def _lost(text: str, made: str, file: str) -> list[Diagnostic]:
    """LB136 for each comment that is not in `made`."""
    kept = [x.text for x in _comments(made)]
    found = []
    for comment in _comments(text):
        if comment.text in kept:
            kept.remove(comment.text)
        else:
            span = Span(file, comment.line + 1, comment.column + 1)
            hint = "put it above the collection, or write the collection without braces and brackets"
            found.append(Diagnostic("LB136", "this comment has no place in the canonical form", span, hint=hint))
    return found or [Diagnostic("LB136", "its comments would be in another order", Span(file))]


def _meaning(root: Node) -> str:
    """What a tree holds, whatever its form: values, quoted or not, and what aliases name."""
    return str(yaml.serialize(root, canonical=True))
