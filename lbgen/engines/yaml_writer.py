"""Plain data -> YAML as people write it, remembering the topology field behind each line.

Short collections stand on one line, texts of several lines are block scalars, and what occurs twice may be an anchor
and its aliases. PyYAML's emitter has no source map and takes seconds for ten thousand routes.
"""

from __future__ import annotations

import re
from itertools import repeat
from json import dumps
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.api import split_lines
from lbgen.engines.document import Commented, Tagged
from lbgen.engines.yaml_anchors import find_repeats, measure
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    from lbgen.engines.document import Data

    _Nested: TypeAlias = "tuple[str, Data, _Content]"  # key, value, what is in that

WIDTH = 120  # characters of a collection on one line, beside the indentation
_WORTH = 80  # characters of a collection; a shorter one is written again rather than named
_MANY = 8  # words in a mapping that are written next to each other
# Texts that every reader of YAML takes for a text without quotes, also within a collection on one line. One that ends
# in a unit is a duration; other digits in front may be a number, a time or an address.
_PLAIN = re.compile(
    r"[A-Za-z_/][A-Za-z0-9_./@;+-]*(?: [A-Za-z0-9_./@;+-]+)*|[0-9]+(?:[.][0-9]+)?s|[0-9]+(?:ms|[mh])"
    r"|[0-9]+(?:[.][0-9]+){3}(?:/[0-9]+)?"
)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NOT_PLAIN = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_SINGLE_QUOTED = re.compile(r"[ -&(-~]*")
_BLOCK = re.compile(r"[^\s][\t\n\x20-\x7e]*\n")  # ends in one line break; checked below
# What JSON leaves as it is and YAML does not allow, or reads as a line break.
_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NESTED = (dict, list, tuple)
_COMPLEX = (*_NESTED, Commented)
_ON_NO_LINE = 1 << 30  # characters
_NOTHING: Mapping[int, _Nested] = MappingProxyType({})


def dump(data: Data, header: str = "", width: int = WIDTH, *, anchors: bool = False) -> tuple[str, tuple[str, ...]]:
    """`data` as YAML below the comment lines of `header`: the text, and the field behind each line ("" = none).

    A collection of at most `width` characters stands on one line. With `anchors` a long collection that occurs again
    is an alias.
    """
    names = find_repeats(data, _WORTH) if anchors else {}
    writer = _Writer(names, width)
    for line in split_lines(header):
        writer.line(f"# {line}".rstrip(), "")
    writer.write("", data, _Reader(names, width).read(data), 0, "", "")
    return "\n".join(writer.lines) + "\n", tuple(writer.origins)


class _Texts(dict[str, str]):
    """Texts as they are written on one line: most of them occur several times."""

    def __init__(self) -> None:
        self.spare: dict[str, int] = {}  # how many characters count in addition, where some do

    def __missing__(self, text: str) -> str:
        self[text] = shown = _text(text)
        if spare := _ON_NO_LINE if "\n" in text and _is_block(text) else measure(shown) - len(shown):
            self.spare[text] = spare
        return shown


class _Keys(dict["str | None", str]):
    """Keys of mappings as they are written, with the colon and the blank behind them; "" for an item of a list."""

    def __missing__(self, key: str | None) -> str:
        self[key] = made = "" if key is None else f"{_key(key)}: "
        return made


class _Content(Struct):
    """What is in a collection."""

    parts: Sequence[str] = ()  # each on one line with its key, if it can be; none of an empty one or an alias
    nested: Mapping[int, _Nested] = _NOTHING  # those of `parts` that may need several lines
    flow: str = ""  # the collection on one line; "" = it needs several
    size: int = 0  # how many characters of `flow` count
    spare: int = _ON_NO_LINE  # how many more those are than there are; as many where no other one can hold `flow`
    fields: tuple[str, ...] = ()  # of the collections on that line


_SCALAR = _Content()


class _Reader:
    """Reads each value once, in the order of lines. `anchors` are names of collections by identity."""

    def __init__(self, anchors: Mapping[int, str], width: int) -> None:
        self._anchors = anchors
        self._width = width
        self._texts = _Texts()
        self._keys = _Keys()
        self._seen: set[str] = set()  # anchors

    def read(self, data: Data) -> _Content:
        """What is in a value."""
        items: Iterable[tuple[str | None, Data]]
        if isinstance(data, dict):
            begin, end, items = "{ ", " }", data.items()
        elif isinstance(data, list | tuple):
            begin, end, items = "[", "]", zip(repeat(None), data)
        elif isinstance(data, Commented):
            return replace(self.read(data.value), spare=_ON_NO_LINE)
        else:
            return _SCALAR
        if not data:
            return _Content((), _NOTHING, _leaf(data), 2, 0)
        outer = 0
        if self._anchors and (anchor := self._anchors.get(id(data))) is not None:
            if anchor in self._seen:
                return _Content((), _NOTHING, f"*{anchor}", len(anchor) + 1, 0)
            self._seen.add(anchor)
            outer = _ON_NO_LINE  # an anchor has a line of its own
        keys, texts = self._keys, self._texts
        parts: list[str] = []
        nested: dict[int, _Nested] = {}
        fields: tuple[str, ...] = ()
        spare = 0
        for name, value in items:
            # Most values are plain ones: they are read here, without a call for each.
            if type(value) is str:
                text = texts[value]
                if value in texts.spare:
                    spare += texts.spare[value]
                    if "\n" in value:
                        nested[len(parts)] = keys[name], value, _SCALAR
                parts.append(keys[name] + text)
            elif type(value) is int:
                parts.append(f"{keys[name]}{value}")
            elif isinstance(value, _COMPLEX):
                key, content = keys[name], self.read(value)
                # A short list of scalars is on one line wherever it stands.
                if type(value) is not list or content.nested or not 0 < content.size < self._width // 2 - len(key):
                    nested[len(parts)] = key, value, content
                parts.append(key + content.flow)
                spare += content.spare
                if spare < _ON_NO_LINE:
                    if isinstance(value, Tagged) and value.field and content.parts:
                        fields += (value.field,)
                    fields += content.fields
            else:
                parts.append(f"{keys[name]}{_leaf(value)}")
        if spare < _ON_NO_LINE:
            flow = f"{begin}{', '.join(parts)}{end}"
            if (size := len(flow) + spare) <= self._width:
                if len(fields) > 1:
                    fields = tuple(dict.fromkeys(fields))
                return _Content(parts, nested, flow, size, spare + outer, fields)
        return _Content(parts, nested)


class _Writer:
    """The lines of a document, and the field behind each."""

    def __init__(self, anchors: Mapping[int, str], width: int) -> None:
        self.lines: list[str] = []
        self.origins: list[str] = []
        self._anchors = anchors
        self._width = width

    def line(self, text: str, origin: str) -> None:
        self.lines.append(text)
        self.origins.append(origin)

    def write(self, key: str, data: Data, content: _Content, indent: int, lead: str, origin: str) -> None:
        """The lines of a value that may need several, the first of which begins with `lead` and `key`."""
        if not isinstance(data, _NESTED):
            self._write_other(key, data, content, indent, lead, origin)
            return
        start = lead + key
        if isinstance(data, Tagged):
            origin = data.field or origin
        if self._anchors and content.parts and (anchor := self._anchors.get(id(data))) is not None:
            start += f"&{anchor} "
        lines, origins = self.lines, self.origins
        fits = content.flow and content.size <= self._width - len(start.strip())
        if not content.parts or (fits and not _is_section(data, indent)):
            lines.append(start + content.flow)
            origins.append(content.fields[0] if len(content.fields) == 1 else origin)
            return
        nested = content.nested
        is_mapping = isinstance(data, dict)
        if is_mapping and len(content.parts) >= _MANY and not _holds_others(data):
            self._write_words(content.parts, indent, start, origin)
            return
        if is_mapping and "-" in lead and 0 in nested:
            nested = {**nested, 0: self._write_first_comment(*nested[0], lead, origin)}
        continues = start.endswith("- ")  # the first part is on the line of the dash
        if start and not continues:
            lines.append(start.rstrip())
            origins.append(origin)
            if not is_mapping:
                indent -= 2  # a list stands below its key
        pad = " " * indent if is_mapping else f"{' ' * indent}- "
        lead = start + pad[indent:] if continues else pad
        for at, part in enumerate(content.parts):
            if at in nested:
                inner_key, value, inner = nested[at]
                self.write(inner_key, value, inner, indent + 2, lead, origin)
            else:
                lines.append(lead + part)
                origins.append(origin)
            lead = pad

    def _write_other(self, key: str, value: Data, content: _Content, indent: int, lead: str, origin: str) -> None:
        if isinstance(value, Commented):
            self._write_comment(value, content, lead.partition("-")[0], origin)
            self.write(key, value.value, content, indent, lead, origin)
        elif isinstance(value, str) and _is_block(value):
            self.line(f"{lead}{key}|", origin)
            for line in split_lines(value):
                self.line(f"{' ' * indent}{line}".rstrip(), origin)
        else:
            self.line(f"{lead}{key}{_leaf(value)}", origin)

    def _write_first_comment(self, key: str, value: Data, content: _Content, lead: str, origin: str) -> _Nested:
        """The comment of the first part of an item of a list, above the dash; the part without it."""
        if not isinstance(value, Commented):
            return key, value, content
        self._write_comment(value, content, lead.partition("-")[0], origin)
        return key, value.value, content

    def _write_comment(self, value: Commented, content: _Content, pad: str, origin: str) -> None:
        if content.flow and not content.parts and content.flow[0] == "*":
            return  # an alias; the comment is above what it stands for
        if value.apart and self.lines:
            self.line("", "")
        for line in split_lines(value.comment):
            self.line(f"{pad}# {line}".rstrip(), origin)

    def _write_words(self, words: Sequence[str], indent: int, start: str, origin: str) -> None:
        """Many short words next to each other within braces of their own lines."""
        self.line(f"{start}{{", origin)
        rows: list[list[str]] = [[]]
        room = self._width
        for word in words:
            if len(word) + 2 > room and rows[-1]:
                rows.append([])
                room = self._width
            rows[-1].append(word)
            room -= len(word) + 2
        for at, row in enumerate(rows):
            self.line(f"{' ' * indent}{', '.join(row)}{',' if at < len(rows) - 1 else ''}", origin)
        self.line(f"{' ' * (indent - 2)}}}", origin)


def _is_section(data: Mapping[str, Data] | Sequence[Data], indent: int) -> bool:
    """Whether it is the document, or a key of it that holds others: never on one line."""
    return indent <= 2 and isinstance(data, dict) and (not indent or _holds_others(data))


def _holds_others(data: Mapping[str, Data] | Sequence[Data]) -> bool:
    """Whether it is a mapping in which not all are plain values."""
    return isinstance(data, dict) and any(isinstance(each, _COMPLEX) for each in data.values())


def _is_block(text: str) -> bool:
    return (
        text.count("\n") > 1 and _BLOCK.fullmatch(text) is not None and not text.endswith("\n\n") and " \n" not in text
    )


def _leaf(value: Data) -> str:
    if isinstance(value, str):
        return _text(value)
    if type(value) is int:
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return dumps(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")


def _text(text: str) -> str:
    """A text in the quotes that it needs; back-slashes stay single where they can."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    if "\\" in text and _SINGLE_QUOTED.fullmatch(text):
        return f"'{text}'"
    return _quote(text)


def _quote(text: str) -> str:
    shown = encode_basestring(text)
    return shown if text.isprintable() else _ESCAPE.sub(lambda m: f"\\u{ord(m[0]):04x}", shown)


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_PLAIN else _quote(key)
