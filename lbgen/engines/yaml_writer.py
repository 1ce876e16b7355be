"""Plain data -> YAML as people write it, remembering the topology field behind each line.

Short collections stand on one line, texts of several lines are block scalars, and what occurs twice may be an anchor
and its aliases.
"""

from __future__ import annotations

import re
from functools import lru_cache
from json import JSONEncoder
from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged, quote
from lbgen.engines.yaml_anchors import find_repeats, measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.engines.document import Data

_WIDTH = 104  # characters of a collection on one line, beside the indentation
_WORTH = 100  # characters of a collection; a shorter one is written again rather than named
# Texts that every reader of YAML takes for a text without quotes, also within a collection on one line. One that ends
# in `s` is a duration; other digits in front may be a number, a time or an address.
_PLAIN = re.compile(
    r"[A-Za-z_/][A-Za-z0-9_./@;+-]*(?: [A-Za-z0-9_./@;+-]+)*|[0-9]+(?:[.][0-9]+)?s|[0-9]+(?:[.][0-9]+){3}"
)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NOT_PLAIN = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_BLOCK = re.compile(r"[^\s][\t\n\x20-\x7e]*\n")  # ends in one line break; checked below
_NESTED = (dict, list, tuple)
_json = JSONEncoder(ensure_ascii=False).encode


class Noted(Tagged):
    """A mapping with comments above the lines of keys (`notes`). An empty `field` is that of the mapping around it."""

    __slots__ = ("notes",)

    def __init__(self, field: str, data: Mapping[str, Data], notes: Mapping[str, str]) -> None:
        super().__init__(field, data)
        self.notes = notes


def noted(data: Mapping[str, Data], **notes: str) -> Noted:
    """`data` with comments above the lines of these keys."""
    return Noted("", data, notes)


def dump(data: Data, header: str = "", *, anchors: bool = False) -> tuple[str, tuple[str, ...]]:
    """`data` as YAML below the comment lines of `header`: the text, and the field behind each line ("" = none).

    With `anchors` a long collection that occurs again is an alias.
    """
    writer = _Writer(find_repeats(data, _WORTH) if anchors else {})
    for line in header.splitlines():
        writer.line(f"# {line}".rstrip(), "")
    writer.write(data, 0, "", "", "")
    return "\n".join(writer.lines) + "\n", tuple(writer.origins)


class _Writer:
    """The lines of a document, and the field behind each. `anchors` are names of mappings by identity."""

    def __init__(self, anchors: Mapping[int, str]) -> None:
        self.lines: list[str] = []
        self.origins: list[str] = []
        self._anchors = anchors
        self._written: set[str] = set()

    def line(self, text: str, origin: str) -> None:
        self.lines.append(text)
        self.origins.append(origin)

    def write(self, data: Data, indent: int, lead: str, origin: str, key: str) -> None:
        """The lines of `data`, the first of which begins with `lead` and `key`."""
        if isinstance(data, Tagged):
            origin = data.field or origin
        start = lead + key
        if (anchor := self._anchors.get(id(data))) is not None:
            if anchor in self._written:
                self.line(f"{start}*{anchor}", origin)
                return
            self._written.add(anchor)
            start += f"&{anchor} "
        if isinstance(data, str) and _is_block(data):
            self._write_text(data, indent, start, origin)
        elif not isinstance(data, _NESTED) or not data:
            self.line(start + _leaf(data), origin)
        elif (flow := self._flow(data, _WIDTH - len(start.strip()))) is not None:
            self.line(start + flow, origin)
        elif isinstance(data, dict):
            self._write_mapping(data, indent, start, origin)
        else:
            self._write_list(data, indent, start, origin)

    def _write_mapping(self, data: Mapping[str, Data], indent: int, start: str, origin: str) -> None:
        pad = " " * indent
        notes = data.notes if isinstance(data, Noted) else {}
        lead = pad
        item = start.lstrip().startswith("- ")
        if item and (above := notes.get(next(iter(data)))):
            self._write_comment(above, start.partition("-")[0], origin)
        if start.endswith("- "):
            lead = start  # the first key is on the line of the dash
        elif start.strip():
            self.line(start.rstrip(), origin)
        for at, (key, value) in enumerate(data.items()):
            if at or not item:
                self._write_comment(notes.get(key, ""), pad, origin)
            self.write(value, indent + 2, lead, origin, f"{_key(key)}: ")
            lead = pad

    def _write_comment(self, text: str, pad: str, origin: str) -> None:
        for line in text.splitlines():
            self.line(f"{pad}# {line}", origin)

    def _write_list(self, data: Sequence[Data], indent: int, start: str, origin: str) -> None:
        if start.endswith("- "):
            lead = f"{start}- "
        else:
            if start.strip():
                self.line(start.rstrip(), origin)
                indent -= 2  # a list stands below its key
            lead = f"{' ' * indent}- "
        for item in data:
            self.write(item, indent + 2, lead, origin, "")
            lead = f"{' ' * indent}- "

    def _write_text(self, text: str, indent: int, start: str, origin: str) -> None:
        self.line(f"{start}|", origin)
        for line in text.splitlines():
            self.line(f"{' ' * indent}{line}".rstrip(), origin)

    def _flow(self, data: Data, room: int) -> str | None:
        """`data` on one line of at most `room` columns; None where it needs several, or shows fields of its own."""
        parts: list[str] = []
        for part in self._parts(data, outermost=True):
            if part is None:
                return None
            room -= measure(part)
            if room < 0:
                return None
            parts.append(part)
        return "".join(parts)

    def _parts(self, data: Data, *, outermost: bool = False) -> Iterator[str | None]:
        # Lines of their own: what has comments, and within another collection what has a field or an anchor.
        own = isinstance(data, Noted) or (isinstance(data, Tagged) and bool(data.field) and not outermost)
        if own or (not outermost and id(data) in self._anchors):
            yield None
        elif isinstance(data, dict) and data:
            lead = "{ "
            for key, value in data.items():
                yield f"{lead}{_key(key)}: "
                yield from self._parts(value)
                lead = ", "
            yield " }"
        elif isinstance(data, list | tuple) and data:
            lead = "["
            for value in data:
                yield lead
                yield from self._parts(value)
                lead = ", "
            yield "]"
        elif isinstance(data, str) and _is_block(data):
            yield None
        else:
            yield _leaf(data)


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
    plain = _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN
    return text if plain else quote(text)


@lru_cache(maxsize=1024)
def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_PLAIN else quote(key)
