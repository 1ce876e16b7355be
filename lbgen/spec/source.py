"""Reads YAML text into plain data with the place of every key; refuses what YAML parsers read differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lbgen.diagnostics import Diagnostic, LbgenError, Span
from lbgen.spec.compose import COLLECTION, DEEPEST, PLAIN, TEXT, compose, find_control_character, span_of
from lbgen.spec.dump import dump
from lbgen.spec.marks import Marks, Step, field_path, origin
from lbgen.spec.scalars import Unusable, read_scalar
from lbgen.spec.value_errors import kind_of, shorten
from lbgen.spec.variables import replace_references

LARGEST_FILE = 16 << 20  # bytes
_BY_STATUS = "error_pages"  # the field whose keys are numbers
MOST_FINDINGS = 200  # then the rest is not looked at
MOST_ALIASED = 100_000  # values reached through aliases
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

_READS: ContextVar[set[Path] | None] = ContextVar("reads", default=None)


class Source(Struct, frozen=True):
    """What one file holds: dicts, lists, str, int, float, bool; and where."""

    data: Any
    marks: Marks


def read_nodes(path: Path) -> Node:
    """The root node of a YAML file. Raises LbgenError: LB100, LB107 to LB110."""
    return parse(read_raw(path), str(path))


@contextmanager
def record_reads() -> Iterator[set[Path]]:
    """The files that are read inside, also those that cannot be, and the folders that included files are looked for
    in."""
    found: set[Path] = set()
    token = _READS.set(found)
    try:
        yield found
    finally:
        _READS.reset(token)


def note_read(path: Path) -> None:
    """Tell `record_reads` of a file or folder."""
    found = _READS.get()
    if found is not None:
        found.add(Path(path).absolute())


def read_raw(path: Path) -> bytes:
    """What is in the file, or a little more than LARGEST_FILE of it. Raises LbgenError LB110."""
    file = str(path)
    note_read(path)
    try:
        with path.open("rb") as stream:
            return stream.read(LARGEST_FILE + 1)
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise LbgenError(Diagnostic("LB110", reason[:1].lower() + reason[1:], Span(file))) from None
    except ValueError:  # a NUL in the path
        raise LbgenError(Diagnostic("LB110", "not the path of a file", Span(file))) from None


def parse(raw: bytes, file: str) -> Node:
    """The root node of YAML text in UTF-8, with or without BOM; see `read_nodes`."""
    if len(raw) > LARGEST_FILE:
        raise LbgenError(Diagnostic("LB108", f"larger than {LARGEST_FILE >> 20} MiB", Span(file)))
    return _parse_text(decode(raw, file), file)


def _parse_text(text: str, file: str) -> Node:
    if found := find_control_character(text):
        span = _span_at(text, found.start(), file)
        message = f"holds the control character U+{ord(found[0]):04X}, so it is not text"
        raise LbgenError(Diagnostic("LB109", message, span))
    return compose(text, file)


def read_bytes(raw: bytes, file: str, variables: Mapping[str, str] = NO_VARIABLES) -> Source:
    """The data of YAML text in UTF-8; see `read_file`."""
    root = parse(raw, file)
    return build(root, Marks(file, root), variables)


def read_text(text: str, file: str, variables: Mapping[str, str] = NO_VARIABLES) -> Source:
    """The data of YAML text; see `read_file`."""
    root = _parse_text(text, file)
    return build(root, Marks(file, root), variables)


def read_file(path: Path, variables: Mapping[str, str] = NO_VARIABLES) -> Source:
    """The data of a YAML file. Raises LbgenError with every finding: LB100, LB102, LB104 to LB110, LB132, LB133."""
    root = read_nodes(path)
    return build(root, Marks(str(path), root), variables)


def build(root: Node, marks: Marks, variables: Mapping[str, str]) -> Source:
    """The data of nodes, with references to variables replaced; see `read_file`."""
    builder = _Builder(marks, variables)
    data = builder.build(root, ())
    if builder.findings:
        raise LbgenError(builder.findings)
    return Source(data, marks)


def read_mapping(data: Mapping[Any, Any], file: str = "<dict>") -> Source:
    """A topology given as Python data: mappings, sequences, text, numbers; LB105 or LB108 for anything else."""
    findings: list[Diagnostic] = []
    plain = _plain(data, (), findings, Span(file))
    if findings:
        raise LbgenError(findings)
    root = compose(dump(plain) if plain else "{}", file)
    return Source(plain, Marks(file, root))


def decode(raw: bytes, file: str) -> str:
    """UTF-8, with or without BOM, as text. Raises LbgenError LB109."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LbgenError(Diagnostic("LB109", "the text is UTF-16", Span(file), hint="save it as UTF-8"))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig", "replace")
        message = f"byte 0x{raw[error.start]:02X} is not UTF-8"
        raise LbgenError(
            Diagnostic("LB109", message, _span_at(before, len(before), file), hint="save the file as UTF-8")
        ) from None


def _span_at(text: str, offset: int, file: str) -> Span:
    line = text.count("\n", 0, offset)
    return Span(file, line + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1)


class _Builder:
    """Builds data from nodes; continues after a finding, so that all are reported at once."""

    def __init__(self, marks: Marks, variables: Mapping[str, str]) -> None:
        self.marks = marks
        self.variables = variables
        self.findings: list[Diagnostic] = []
        self._seen: set[int] = set()
        self._plain_keys: dict[str, str] = {}  # as written, and as read: many mappings have the same
        self._aliased = 0
        self._stopped = False

    def build(self, node: Node, steps: tuple[Step, ...]) -> Any:  # noqa: ANN401  # plain data
        if isinstance(node, ScalarNode):
            return self._scalar(node, steps)
        if self._stopped:
            return ""
        if len(steps) > DEEPEST:
            self._stop("an alias inside its own anchor, or nested too deep", node, steps)
            return ""
        if node.tag is not COLLECTION:
            self._tag(node, steps)
        if id(node) in self._seen:
            self._aliased += 1 + len(node.value)
            if self._aliased > MOST_ALIASED:
                self._stop(f"aliases stand for more than {MOST_ALIASED} values", node, steps)
                return ""
        self._seen.add(id(node))
        if isinstance(node, SequenceNode):
            return [self.build(item, (*steps, index)) for index, item in enumerate(node.value)]
        return self._mapping(node, steps) if isinstance(node, MappingNode) else ""

    def _mapping(self, node: MappingNode, steps: tuple[Step, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        first: dict[str, Node] = {}
        for key_node, value_node in node.value:
            key = self._plain_keys.get(key_node.value) if key_node.tag is PLAIN else None
            inner = (*steps, key_node.value) if isinstance(key_node, ScalarNode) else steps
            if key is None and (key := self._key(key_node, inner)) is None:
                continue
            if key in data:
                first = first or _first_keys(node)
                before, here = span_of(first[key]), span_of(key_node)
                where = f"in line {before.line}" if before.file == here.file else f"at {before}"
                self._find(
                    "LB102", f'the key "{shorten(key)}" is written twice', key_node, inner, f"the first is {where}"
                )
                continue
            data[key] = self.build(value_node, inner)
        return data

    def _key(self, node: Node, steps: tuple[Step, ...]) -> str | None:
        if not isinstance(node, ScalarNode):
            self._find("LB105", "a list or a mapping where a key is expected", node, steps, "write text as the key")
            return None
        if node.tag is TEXT:
            return str(node.value)
        if node.tag is not PLAIN:
            self._tag(node, steps)
            return None
        if node.value == "<<":
            hint = "write the keys out; routes share fields by policies: { NAME: { ... } }, all of them by defaults:"
            self._find("LB107", "merge keys are not supported", node, steps, hint)
            return None
        try:
            key = read_scalar(node.value, key=True)
        except Unusable as unusable:
            self._find(unusable.code, unusable.message, node, steps, unusable.hint)
            return None
        if isinstance(key, str):
            return self._plain_keys.setdefault(node.value, key)
        if steps[-2:-1] == (_BY_STATUS,) and str(key) == node.value:
            return str(node.value)
        self._find(
            "LB105",
            f"{kind_of(key)} where a key is expected",
            node,
            steps,
            f'write "{node.value}"' if node.value else "",
        )
        return None

    def _scalar(self, node: ScalarNode, steps: tuple[Step, ...]) -> Any:  # noqa: ANN401  # plain data
        written = node.value
        if "$" in written and ("${" in written or "$$" in written):
            return self._replaced(node, steps)
        if node.tag is TEXT:
            return written
        if node.tag is not PLAIN:
            self._tag(node, steps)
            return written
        try:
            value = read_scalar(written)
        except Unusable as unusable:
            self._find(unusable.code, unusable.message, node, steps, unusable.hint)
            return ""
        if value is None:
            self._find("LB105", "there is no value", node, steps, "write one, or remove the key")
            return ""
        return value

    def _replaced(self, node: ScalarNode, steps: tuple[Step, ...]) -> str:
        """The text with its variables, quoted or not; the field decides later whether it is a number."""
        if node.tag not in (PLAIN, TEXT):
            self._tag(node, steps)
        try:
            text = replace_references(node.value, self.variables)
        except Unusable as unusable:
            self._find(unusable.code, unusable.message, node, steps, unusable.hint)
            return ""
        if "${" in node.value:
            self.marks.replaced_values[origin(node)] = text
        if found := find_control_character(text):
            self._find("LB109", f"a variable holds the control character U+{ord(found[0]):04X}", node, steps)
        return text

    def _tag(self, node: Node, steps: tuple[Step, ...]) -> None:
        shown = node.tag.replace("tag:yaml.org,2002:", "!!")
        self._find("LB107", f"the tag {shown} is not supported", node, steps, "remove it, or quote the text")

    def _find(self, code: str, message: str, node: Node, steps: tuple[Step, ...], hint: str = "") -> None:
        if self._stopped:
            return
        self.findings.append(Diagnostic(code, message, span_of(node), shorten(field_path(steps), 200), hint))
        self._stopped = len(self.findings) >= MOST_FINDINGS

    def _stop(self, message: str, node: Node, steps: tuple[Step, ...]) -> None:
        self._stopped = True
        field = shorten(field_path(steps), 200)
        self.findings = [Diagnostic("LB108", message, span_of(node), field, "write the values out")]


def _first_keys(node: MappingNode) -> dict[str, Node]:
    return {k.value: k for k, _ in reversed(node.value) if isinstance(k, ScalarNode)}


def _plain(value: object, steps: tuple[Step, ...], findings: list[Diagnostic], span: Span) -> Any:  # noqa: ANN401
    if isinstance(value, str):
        return _whole_text(value, steps, findings, span)
    if isinstance(value, bool | int | float):
        return value
    if len(steps) > DEEPEST:
        findings.append(Diagnostic("LB108", f"nested deeper than {DEEPEST} levels", span, field_path(steps)))
        return ""
    if isinstance(value, Mapping):
        data: dict[str, Any] = {}
        for written, item in value.items():
            key = "on" if written is True else written  # what YAML 1.1 reads `on:` as
            if isinstance(key, int) and not isinstance(key, bool) and steps[-1:] == (_BY_STATUS,):
                key = str(key)
            if isinstance(key, str) and key in data:
                findings.append(
                    Diagnostic("LB102", f'the key "{shorten(key)}" is written twice', span, field_path(steps))
                )
            elif isinstance(key, str):
                data[_whole_text(key, steps, findings, span)] = _plain(item, (*steps, key), findings, span)
            else:
                message = f"the key {shorten(repr(key))} is not text"
                findings.append(Diagnostic("LB105", message, span, field_path(steps)))
        return data
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain(item, (*steps, i), findings, span) for i, item in enumerate(value)]
    what = "there is no value" if value is None else f"a Python {type(value).__name__} is not part of a topology"
    hint = "write one, or remove the key" if value is None else "use dicts, lists, text and numbers"
    findings.append(Diagnostic("LB105", what, span, field_path(steps), hint))
    return ""


def _whole_text(value: str, steps: tuple[Step, ...], findings: list[Diagnostic], span: Span) -> str:
    """`value` as a plain str; half a surrogate pair is a finding, since no file can hold it."""
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        findings.append(Diagnostic("LB120", "holds half a surrogate pair", span, field_path(steps)))
        return ""
    return str(value)
