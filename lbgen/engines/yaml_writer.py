"""Plain data -> YAML as people write it, remembering the topology field behind each line.

Short collections stand on one line, texts of several lines are block scalars, and what occurs twice may be an anchor
and its aliases. PyYAML's emitter has no source map and takes seconds for ten thousand routes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from json import dumps
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines.api import split_lines
from lbgen.engines.document import Commented, Plain, Tagged

if TYPE_CHECKING:
    from lbgen.engines.document import Data

    _Item: TypeAlias = "tuple[str, Data, _Content]"  # key with colon and blank ("" in a list), value, what is in that

WIDTH = 120  # characters of a collection on one line, beside the indentation
_WORTH = 80  # characters of a collection; a shorter one is written again rather than named
_WORTH_OF_NAMED = 40  # of one that a field of the topology makes and names, such as a route
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
_TIME = re.compile(r'"?[0-9.]+(?:ms|[smh])"?')
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_NESTED = (dict, list, tuple)
_COMPLEX = (*_NESTED, Commented)


def dump(data: Data, header: str = "", width: int = WIDTH, *, anchors: bool = False) -> tuple[str, tuple[str, ...]]:
    """`data` as YAML below the comment lines of `header`: the text, and the field behind each line ("" = none).

    A collection of at most `width` characters stands on one line. With `anchors` a long collection that occurs again
    is an alias.
    """
    names = find_repeats(data, _WORTH) if anchors else {}
    writer = _Writer(names, width)
    for line in split_lines(header):
        writer.line(f"# {line}".rstrip(), "")
    writer.write(("", data, _Reader(names, width).read(data)), 0, "", "")
    return "\n".join(writer.lines) + "\n", tuple(writer.origins)


class _Content(Struct):
    """What is in a value. `flow`: the value on one line, "" = it needs several; `size`: how many characters of that
    count; `alone`: no other collection can hold it on its line; `fields`: of the collections on the line."""

    items: Sequence[_Item] = ()  # none of a scalar, an empty collection or an alias
    flow: str = ""
    size: int = 0
    alone: bool = False
    fields: tuple[str, ...] = ()


class _Reader:
    """Reads each value once, in the order of lines. `anchors` are names of collections by identity."""

    def __init__(self, anchors: Mapping[int, str], width: int) -> None:
        self._anchors = anchors
        self._width = width
        self._seen: set[str] = set()  # anchors

    def read(self, data: Data) -> _Content:
        if isinstance(data, Commented):
            return replace(self.read(data.value), alone=True)
        if not data or not isinstance(data, _NESTED):
            flow = _leaf(data)
            size = _measure(flow) if isinstance(data, str) else len(flow)
            return _Content((), flow, size, isinstance(data, str) and _is_block(data))
        if anchor := self._anchors.get(id(data), ""):
            if anchor in self._seen:
                return _Content((), f"*{anchor}", len(anchor) + 1)
            self._seen.add(anchor)
        if isinstance(data, dict):
            items = [(f"{_key(key)}: ", value, self.read(value)) for key, value in data.items()]
            flow = f"{{ {', '.join(key + content.flow for key, _, content in items)} }}"
        else:
            items = [("", value, self.read(value)) for value in data]
            flow = f"[{', '.join(content.flow for _, _, content in items)}]"
        size = len(flow) + sum(content.size - len(content.flow) for _, _, content in items)
        if size > self._width or any(content.alone or not content.flow for _, _, content in items):
            return _Content(items)
        fields: dict[str, None] = {}
        for _, value, content in items:
            if isinstance(value, Tagged) and value.field and content.items:
                fields[value.field] = None
            fields |= dict.fromkeys(content.fields)
        return _Content(items, flow, size, anchor != "", tuple(fields))


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

    def write(self, item: _Item, indent: int, lead: str, origin: str) -> None:
        """The lines of a value, the first of which begins with `lead` and its key."""
        key, data, content = self._without_comment(item, lead, origin)
        start = lead + key
        if isinstance(data, str) and _is_block(data):
            self.line(f"{start}|", origin)
            for line in split_lines(data):
                self.line(f"{' ' * indent}{line}".rstrip(), origin)
            return
        if not isinstance(data, _NESTED) or self._stays_on_line(key, data, content):
            self.line(start + content.flow, origin)
            return
        if isinstance(data, Tagged):
            origin = data.field or origin
        if content.items and (anchor := self._anchors.get(id(data))) is not None:
            start += f"&{anchor} "
        fits = content.flow and content.size <= self._width - len(start.strip())
        if not content.items or (fits and not _is_section(data, indent)):
            self.line(start + content.flow, content.fields[0] if len(content.fields) == 1 else origin)
        elif isinstance(data, dict) and len(content.items) >= _MANY and not _holds_others(data):
            self._write_words([key + inner.flow for key, _, inner in content.items], indent, start, origin)
        else:
            self._write_items(data, content.items, indent, lead, start, origin)

    def _write_items(self, data: Data, items: Sequence[_Item], indent: int, lead: str, start: str, origin: str) -> None:
        is_mapping = isinstance(data, dict)
        if is_mapping and "-" in lead:  # the comment of the first part is above the dash
            items = [self._without_comment(items[0], lead, origin), *items[1:]]
        continues = start.endswith("- ")  # the first part is on the line of the dash
        if start and not continues:
            self.line(start.rstrip(), origin)
            if not is_mapping:
                indent -= 2  # a list stands below its key
        pad = " " * indent if is_mapping else f"{' ' * indent}- "
        lead = start + pad[indent:] if continues else pad
        for item in items:
            self.write(item, indent + 2, lead, origin)
            lead = pad

    def _stays_on_line(self, key: str, data: Data, content: _Content) -> bool:
        """Whether it is a short list of scalars, which is on one line wherever it stands, or a scalar."""
        if type(data) is not list:
            return not isinstance(data, _COMPLEX) and not content.alone
        return 0 < content.size < self._width // 2 - len(key) and all(self._stays_on_line(*x) for x in content.items)

    def _without_comment(self, item: _Item, lead: str, origin: str) -> _Item:
        """The item, once its comment is written above it."""
        key, data, content = item
        if not isinstance(data, Commented):
            return item
        if content.items or not content.flow.startswith("*"):  # the comment of an alias is above what it stands for
            if data.apart and self.lines:
                self.line("", "")
            for line in split_lines(data.comment):
                self.line(f"{lead.partition('-')[0]}# {line}".rstrip(), origin)
        return key, data.value, content

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


def _is_section(data: Data, indent: int) -> bool:
    """Whether it is the document, or a key of it that holds others: never on one line."""
    return indent <= 2 and isinstance(data, dict) and (not indent or _holds_others(data))


def _holds_others(data: Mapping[str, Data]) -> bool:
    """Whether not all of its values are plain ones."""
    return any(isinstance(each, _COMPLEX) for each in data.values())


def _is_block(text: str) -> bool:
    return (
        text.count("\n") > 1 and _BLOCK.fullmatch(text) is not None and not text.endswith("\n\n") and " \n" not in text
    )


def _measure(scalar: str) -> int:
    """How many characters count: as many for each time, so that plans whose times alone differ have the same lines."""
    return 8 if _TIME.fullmatch(scalar) else len(scalar)


def _leaf(value: Data) -> str:
    """A scalar, or an empty collection."""
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool | int | float | dict | list):
        return dumps(value)
    if isinstance(value, tuple):
        return "[]"
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")


def _text(text: str) -> str:
    """A text in the quotes that it needs; back-slashes stay single where they can."""
    if isinstance(text, Plain):
        return str(text)
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    if "\\" in text and _SINGLE_QUOTED.fullmatch(text):
        return f"'{text}'"
    return _quote(text)


def _quote(text: str) -> str:
    return _ESCAPE.sub(lambda m: f"\\u{ord(m[0]):04x}", encode_basestring(text))


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_PLAIN else _quote(key)


def find_repeats(data: object, worth: int) -> Mapping[int, str]:
    """Anchor names of the collections of more than `worth` characters that are written more than once, by identity:
    equal ones have the same name."""
    repeats = _Repeats(worth)
    repeats.number(data)
    repeats.count(data, "")
    return {identity: repeats.names[number] for identity, number in repeats.numbers.items() if number in repeats.names}


class _Repeats:
    """`numbers`: the same for equal collections, by identity. `names`: of those that repeat, by number."""

    def __init__(self, worth: int) -> None:
        self.numbers: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self._worth = worth
        self._equal: dict[object, int] = {}
        self._sizes: dict[int, int] = {}
        self._seen: dict[int, str] = {}
        self._next: dict[str, int] = {}  # by name that is taken, the number to try for another anchor of it

    def number(self, data: object) -> tuple[object, int]:
        """A key that equal data share, and how many characters they have, about."""
        if isinstance(data, Commented):
            return self.number(data.value)
        if not isinstance(data, _NESTED):
            return (type(data), data), _measure(str(data))
        names = tuple(data) if isinstance(data, dict) else None
        inner = [self.number(value) for value in (data.values() if isinstance(data, dict) else data)]
        key = (names, getattr(data, "field", ""), *(key for key, _ in inner))
        number = self.numbers[id(data)] = self._equal.setdefault(key, len(self._equal))
        self._sizes[number] = sum(map(len, names or ())) + sum(size for _, size in inner)
        return number, self._sizes[number]

    def count(self, data: object, name: str) -> None:
        """Names what is written again after its first place; what is in it is not."""
        if isinstance(data, Commented):
            data = data.value
        if not isinstance(data, _NESTED):
            return
        number = self.numbers[id(data)]
        own = data.get("name") if isinstance(data, dict) else None
        size = self._sizes[number]
        if size <= self._worth and (size <= _WORTH_OF_NAMED or type(data) is not Tagged or not own):
            return  # what is in it is not worth more
        name = own if isinstance(own, str) else name
        if number in self._seen:
            if number not in self.names:
                first = self._seen[number].rpartition(".v3.")[2]
                self.names[number] = self._unused(_UNSAFE.sub("-", first).strip("-") or "shared")
            return
        self._seen[number] = name
        if size > self._worth:
            for key, value in data.items() if isinstance(data, dict) else ((name, each) for each in data):
                self.count(value, key)

    def _unused(self, name: str) -> str:
        found = name
        while found in self._next:
            found = f"{name}-{self._next[name]}"
            self._next[name] += 1
        self._next[found] = 2
        return found
