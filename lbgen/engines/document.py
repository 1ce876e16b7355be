"""Plain data -> block YAML with every string quoted, remembering the topology field behind each line.

PyYAML's emitter has no source map and takes seconds for ten thousand routes; what is needed here is a page of code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from json import JSONEncoder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Data = str | int | float | bool | None | Mapping[str, "Data"] | Sequence["Data"]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_PLAIN = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# What JSON leaves as it is and YAML does not allow, or reads as a line break.
_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NESTED = (dict, list, tuple)
_json = JSONEncoder(ensure_ascii=False).encode


class Tagged(dict[str, "Data"]):
    """A mapping that knows the topology field it came from; lines of nested mappings inherit it."""

    __slots__ = ("field",)

    def __init__(self, field: str, data: Mapping[str, Data]) -> None:
        super().__init__(data)
        self.field = field


def dump(data: Data, header: str = "") -> tuple[str, tuple[str, ...]]:
    """`data` as YAML below the comment lines of `header`: the text, and the field behind each line ("" = none)."""
    lines: list[str] = []
    origins: list[str] = []
    for line in header.splitlines():
        lines.append(f"# {line}".rstrip())
        origins.append("")
    _block(data, 0, "", lines, origins)
    return "\n".join(lines) + "\n", tuple(origins)


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
