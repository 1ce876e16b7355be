"""Plain data -> YAML as people write it, remembering the topology field behind each line.

Short collections stand on one line, texts of several lines are block scalars, and what occurs twice may be an anchor
and its aliases. PyYAML's emitter has no source map and takes seconds for ten thousand routes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import repeat
from json import JSONEncoder
from typing import TYPE_CHECKING

from lbgen.engines.document import Commented, Tagged
from lbgen.engines.yaml_anchors import find_repeats, measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.engines.document import Data

WIDTH = 120  # characters of a collection on one line, beside the indentation
_WORTH = 100  # characters of a collection; a shorter one is written again rather than named
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
_ON_NO_LINE = 1 << 30  # characters
_json = JSONEncoder(ensure_ascii=False).encode


def dump(data: Data, header: str = "", width: int = WIDTH, *, anchors: bool = False) -> tuple[str, tuple[str, ...]]:
    """`data` as YAML below the comment lines of `header`: the text, and the field behind each line ("" = none).

    A collection of at most `width` characters stands on one line. With `anchors` a long collection that occurs again
    is an alias.
    """
    writer = _Writer(find_repeats(data, _WORTH) if anchors else {}, width)
    for line in header.splitlines():
        writer.line(f"# {line}".rstrip(), "")
    writer.write(data, 0, "", "", "")
    return "\n".join(writer.lines) + "\n", tuple(writer.origins)


# A collection on one line, how many characters of it count, and the fields within it.
_Flow = tuple[str, int, tuple[str, ...]]


class _Texts(dict[str, tuple[str, int]]):
    """Texts as they are written on one line, and how many characters count: most of them occur several times."""

    def __missing__(self, text: str) -> tuple[str, int]:
        shown = _text(text)
        self[text] = made = (shown, _ON_NO_LINE if "\n" in text and _is_block(text) else measure(shown))
        return made


class _Keys(dict["str | None", str]):
    """Keys of mappings as they are written, with the colon and the blank behind them; "" for an item of a list."""

    def __missing__(self, key: str | None) -> str:
        self[key] = made = "" if key is None else f"{_key(key)}: "
        return made


class _Writer:
    """The lines of a document, and the field behind each. `anchors` are names of mappings by identity."""

    def __init__(self, anchors: Mapping[int, str], width: int) -> None:
        self.lines: list[str] = []
        self.origins: list[str] = []
        self._anchors = anchors
        self._width = width
        self._texts = _Texts()
        self._keys = _Keys()
        self._written: set[str] = set()
        self._flows: dict[int, _Flow | None] = {}  # by identity
        self._anchor_uses = 0  # how often a named collection was met within another

    def line(self, text: str, origin: str) -> None:
        self.lines.append(text)
        self.origins.append(origin)

    def write(self, data: Data, indent: int, lead: str, origin: str, key: str) -> None:
        """The lines of `data`, the first of which begins with `lead` and `key`."""
        start = lead + key
        if not isinstance(data, _NESTED):
            if isinstance(data, str) and "\n" in data and _is_block(data):
                self._write_text(data, indent, start, origin)
            else:
                self.line(f"{start}{_leaf(data)}", origin)
            return
        if isinstance(data, Tagged):
            origin = data.field or origin
        if self._anchors and (anchor := self._anchors.get(id(data))) is not None:
            if anchor in self._written:
                self.line(f"{start}*{anchor}", origin)
                return
            self._written.add(anchor)
            start += f"&{anchor} "
        if not data:
            self.line(start + _leaf(data), origin)
        elif (
            (indent > 2 or not _is_section(data, indent))
            and (flow := self._flow(data)) is not None
            and flow[1] <= self._width - len(start.strip())
        ):
            self.line(start + flow[0], flow[2][0] if len(flow[2]) == 1 else origin)
        elif not isinstance(data, dict):
            self._write_list(data, indent, start, origin)
        elif len(data) >= _MANY and (parts := self._words(data)):
            self._write_words(parts, indent, start, origin)
        else:
            self._write_mapping(data, indent, start, origin)

    def _write_mapping(self, data: Mapping[str, Data], indent: int, start: str, origin: str) -> None:
        lines, origins, keys, texts = self.lines, self.origins, self._keys, self._texts
        pad = " " * indent
        first = next(iter(data.values()))
        if item := isinstance(first, Commented) and start.lstrip().startswith("- "):
            self._write_comment(first, start.partition("-")[0], origin)
        lead = pad
        if start.endswith("- "):
            lead = start  # the first key is on the line of the dash
        elif start.strip():
            self.line(start.rstrip(), origin)
        for at, (key, value) in enumerate(data.items()):
            if isinstance(value, Commented):
                if at or not item:
                    self._write_comment(value, pad, origin)
                value = value.value
            # Most values are plain ones: they are written here, without a call for each.
            if type(value) is str and "\n" not in value:
                lines.append(f"{lead}{keys[key]}{texts[value][0]}")
                origins.append(origin)
            elif type(value) is int:
                lines.append(f"{lead}{keys[key]}{value}")
                origins.append(origin)
            else:
                self.write(value, indent + 2, lead, origin, keys[key])
            lead = pad

    def _write_comment(self, value: Commented, pad: str, origin: str) -> None:
        if self._anchors.get(id(value.value)) in self._written:
            return  # an alias; the comment is above what it stands for
        if value.apart and self.lines:
            self.line("", "")
        for line in value.comment.splitlines():
            self.line(f"{pad}# {line}".rstrip(), origin)

    def _write_list(self, data: Sequence[Data], indent: int, start: str, origin: str) -> None:
        if start.endswith("- "):
            lead = f"{start}- "
        else:
            if start.strip():
                self.line(start.rstrip(), origin)
                indent -= 2  # a list stands below its key
            lead = f"{' ' * indent}- "
        for at, item in enumerate(data):
            if isinstance(item, Commented):
                above = start.partition("-")[0] if not at and start.endswith("- ") else " " * indent
                self._write_comment(item, above, origin)
                item = item.value
            self.write(item, indent + 2, lead, origin, "")
            lead = f"{' ' * indent}- "

    def _write_text(self, text: str, indent: int, start: str, origin: str) -> None:
        self.line(f"{start}|", origin)
        for line in text.splitlines():
            self.line(f"{' ' * indent}{line}".rstrip(), origin)

    def _words(self, data: Mapping[str, Data]) -> list[str] | None:
        """The parts of a mapping of scalars; None for any other."""
        if any(isinstance(each, (*_NESTED, Commented)) for each in data.values()):
            return None
        return [f"{_key(key)}: {_leaf(value)}" for key, value in data.items()]

    def _write_words(self, parts: Sequence[str], indent: int, start: str, origin: str) -> None:
        """Many short words next to each other within braces of their own lines."""
        self.line(f"{start}{{", origin)
        rows: list[list[str]] = [[]]
        room = self._width
        for part in parts:
            if measure(part) + 2 > room and rows[-1]:
                rows.append([])
                room = self._width
            rows[-1].append(part)
            room -= measure(part) + 2
        for at, row in enumerate(rows):
            self.line(f"{' ' * indent}{', '.join(row)}{',' if at < len(rows) - 1 else ''}", origin)
        self.line(f"{' ' * (indent - 2)}}}", origin)

    def _flow(self, data: Mapping[str, Data] | Sequence[Data]) -> _Flow | None:
        """A collection on one line; None where it needs several. What is within others is looked at once."""
        flows, known = self._flows, id(data)
        if known in flows:
            return flows[known]
        uses_before = self._anchor_uses
        made = self._make_flow(data) if data else (_leaf(data), 2, ())
        if self._anchor_uses == uses_before:  # else another one may be written by the time that it is asked for again
            flows[known] = made
        return made

    def _make_flow(self, data: Mapping[str, Data] | Sequence[Data]) -> _Flow | None:
        parts: list[str] = []
        fields: tuple[str, ...] = ()
        texts, keys, width, anchors = self._texts, self._keys, self._width, self._anchors
        items: Iterable[tuple[str | None, Data]]
        if isinstance(data, dict):
            begin, end, items = "{ ", " }", data.items()
        else:
            begin, end, items = "[", "]", zip(repeat(None), data)
        size = len(begin) - 2  # each but the first follows a comma and a blank
        for name, value in items:
            kind = type(value)
            if isinstance(value, str):
                shown, length = texts[value]
            elif kind is int:
                shown = str(value)
                length = len(shown)
            elif isinstance(value, _NESTED):
                inner = self._named_flow(value) if anchors else self._flow(value)
                if inner is None:
                    return None
                shown, length, within = inner
                if isinstance(value, Tagged) and value.field and value and shown[0] != "*":
                    fields += (value.field,)
                fields += within
            elif kind is Commented:
                return None  # lines of their own
            else:
                shown = _leaf(value)
                length = len(shown)
            key = keys[name]
            parts.append(key + shown)
            size += 2 + len(key) + length
            if size > width:
                return None
        if len(fields) > 1:
            fields = tuple(dict.fromkeys(fields))
        return f"{begin}{', '.join(parts)}{end}", size + len(end), fields

    def _named_flow(self, data: Mapping[str, Data] | Sequence[Data]) -> _Flow | None:
        """Like `_flow`, of a collection that may have an anchor."""
        if (anchor := self._anchors.get(id(data))) is None:
            return self._flow(data)
        self._anchor_uses += 1
        return (f"*{anchor}", len(anchor) + 1, ()) if anchor in self._written else None


def _is_section(data: Data, indent: int) -> bool:
    """Whether it is the document, or a key of it that holds others: never on one line."""
    if not isinstance(data, dict):
        return False
    return not indent or (indent == 2 and any(isinstance(each, (*_NESTED, Commented)) for each in data.values()))


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
        return _json(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")


@lru_cache(maxsize=4096)
def _text(text: str) -> str:
    """A text in the quotes that it needs; back-slashes stay single where they can."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    if "\\" in text and _SINGLE_QUOTED.fullmatch(text):
        return f"'{text}'"
    return _quote(text)


def _quote(text: str) -> str:
    return _ESCAPE.sub(lambda m: f"\\u{ord(m[0]):04x}", _json(text))


@lru_cache(maxsize=1024)
def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_PLAIN else _quote(key)
