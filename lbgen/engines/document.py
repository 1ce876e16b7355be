"""Plain data -> YAML, remembering the topology field behind each line.

PyYAML's emitter has no source map and takes seconds for ten thousand routes; what is needed here is a page of code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json import JSONEncoder
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    Data: TypeAlias = "str | int | float | bool | Commented | Mapping[str, Data] | Sequence[Data] | None"

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_PLAIN = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# What JSON leaves as it is and YAML does not allow, or reads as a line break.
_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NESTED = (dict, list, tuple)
# Texts that YAML 1.1 and 1.2 read as texts without quotes, in a flow collection too: words, times, IPv4 networks.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@-]*|[0-9]+(?:ms|[smh])|[0-9]+(?:\.[0-9]+){3}(?:/[0-9]+)?")
_MANY = 8  # words in a mapping that are written next to each other
_SINGLE_QUOTED = re.compile(r"[ -&(-~]*")
_json = JSONEncoder(ensure_ascii=False).encode


class Tagged(dict[str, "Data"]):
    """A mapping that knows the topology field it came from; lines of nested mappings inherit it."""

    __slots__ = ("field",)

    def __init__(self, field: str, data: Mapping[str, Data]) -> None:
        super().__init__(data)
        self.field = field


@dataclass(frozen=True, slots=True)
class Commented:
    """A value of a mapping with comment lines above it, and an empty one before those with `apart`."""

    comment: str
    value: Data
    apart: bool = False


def dump(data: Data, header: str = "") -> tuple[str, tuple[str, ...]]:
    """`data` as block YAML with every text in quotes, below the comment lines of `header`: the text, and the field
    behind each line ("" = none)."""
    lines: list[str] = []
    origins: list[str] = []
    for line in header.splitlines():
        lines.append(f"# {line}".rstrip())
        origins.append("")
    _block(data, 0, "", lines, origins)
    return "\n".join(lines) + "\n", tuple(origins)


def write(data: Data, header: str, width: int = 120) -> tuple[str, tuple[str, ...]]:
    """As `dump`, in the form of a file that people write: quotes where they are needed, a collection that fits into
    `width` columns on one line (at the top only if it holds no other), comments."""
    lines = [f"# {line}".rstrip() for line in header.splitlines()]
    origins = [""] * len(lines)
    _written(data, 0, "", width, lines, origins)
    return "\n".join(lines) + "\n", tuple(origins)


def _written(data: Data, indent: int, origin: str, width: int, lines: list[str], origins: list[str]) -> None:
    """Append the lines of a collection, and the origin of each."""
    pad = " " * indent
    if isinstance(data, dict):
        origin = data.field if isinstance(data, Tagged) else origin
        for key, value in data.items():
            if isinstance(value, Commented):
                above = [""] if value.apart and lines else []
                above += [f"{pad}# {line}" for line in value.comment.splitlines()]
                value = value.value
                lines += above
                origins += [""] * len(above)
            origins.append(value.field if isinstance(value, Tagged) else origin)
            begin, short = f"{pad}{_key(key)}:", _flow(value)
            at_top = indent == 0 and isinstance(value, dict) and any(isinstance(x, _NESTED) for x in value.values())
            fits = short is not None and not at_top and len(begin) + 1 + len(short) <= width
            if fits or not isinstance(value, _NESTED) or not value:
                lines.append(f"{begin} {short}")
                continue
            if (wrapped := _wrapped(value, indent + 2, width)) is not None:
                lines += [f"{begin} {{", *wrapped, f"{pad}}}"]
                origins += origins[-1:] * (len(wrapped) + 1)
                continue
            lines.append(begin)
            _written(value, indent + 2, origin, width, lines, origins)
    elif isinstance(data, list | tuple):
        for item in data:
            short = _flow(item)
            if (short is not None and indent + 2 + len(short) <= width) or not isinstance(item, _NESTED) or not item:
                lines.append(f"{pad}- {short}")
                origins.append(item.field if isinstance(item, Tagged) else origin)
                continue
            first = len(lines)
            _written(item, indent + 2, origin, width, lines, origins)
            lines[first] = f"{pad}- {lines[first][indent + 2 :]}"


def _wrapped(value: Data, indent: int, width: int) -> list[str] | None:
    """The lines inside the braces of a long mapping of short words; None for any other value."""
    if not isinstance(value, dict) or len(value) < _MANY or any(isinstance(each, _NESTED) for each in value.values()):
        return None
    lines = [" " * (indent - 1)]
    for key, each in value.items():
        part = f" {_key(key)}: {_flow(each)},"
        if len(lines[-1]) + len(part) > width:
            lines.append(" " * (indent - 1))
        lines[-1] += part
    return [*lines[:-1], lines[-1].rstrip(",")]


def _flow(value: Data) -> str | None:
    """On one line; None for what holds comments."""
    if isinstance(value, Commented):
        return None
    if isinstance(value, dict):
        parts = [(_key(key), _flow(each)) for key, each in value.items()]
        if any(text is None for _, text in parts):
            return None
        return "{ " + ", ".join(f"{key}: {text}" for key, text in parts) + " }" if parts else "{}"
    if isinstance(value, list | tuple):
        texts = [_flow(each) for each in value]
        return None if None in texts else f"[{', '.join(text for text in texts if text is not None)}]"
    if isinstance(value, str):
        return _word(value)
    return _scalar(value)


@lru_cache(maxsize=1024)
def _word(text: str) -> str:
    """A text in the quotes that it needs; back-slashes stay single where they can."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    if "\\" in text and _SINGLE_QUOTED.fullmatch(text):
        return f"'{text}'"
    return quote(text)


def quote(text: str) -> str:
    """A double-quoted YAML scalar."""
    return _ESCAPE.sub(lambda m: f"\\u{ord(m[0]):04x}", _json(text))


def _scalar(value: Data) -> str:
    if isinstance(value, str):
        return quote(value)
    if type(value) is int:
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return _json(value)
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")


@lru_cache(maxsize=1024)
def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_PLAIN else quote(key)


def _block(data: Data, indent: int, origin: str, lines: list[str], origins: list[str]) -> None:
    """Append the lines of `data`, and the origin of each."""
    pad = " " * indent
    if isinstance(data, dict):
        if isinstance(data, Tagged):
            origin = data.field
        if not data:
            lines.append(f"{pad}{{}}")
            origins.append(origin)
        for key, value in data.items():
            origins.append(value.field if isinstance(value, Tagged) else origin)
            if isinstance(value, _NESTED) and value:
                lines.append(f"{pad}{_key(key)}:")
                _block(value, indent + 2, origin, lines, origins)
            else:
                lines.append(f"{pad}{_key(key)}: {_leaf(value)}")
    elif isinstance(data, list | tuple):
        for item in data:
            if isinstance(item, _NESTED) and item:
                first = len(lines)
                _block(item, indent + 2, origin, lines, origins)
                lines[first] = f"{pad}- {lines[first][indent + 2 :]}"
            else:
                lines.append(f"{pad}- {_leaf(item)}")
                origins.append(origin)
    else:
        lines.append(f"{pad}{_scalar(data)}")
        origins.append(origin)


def _leaf(value: Data) -> str:
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    return _scalar(value)
