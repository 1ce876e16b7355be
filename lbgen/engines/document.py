"""Plain data -> block YAML with every string quoted, remembering the topology field behind each line.

PyYAML's emitter has no source map and takes seconds for ten thousand routes; what is needed here is a page of code.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Data = str | int | float | bool | None | Mapping[str, "Data"] | Sequence["Data"]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_PLAIN = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# What JSON leaves as it is and YAML does not allow, or reads as a line break.
_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


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
    for text, origin in _block(data, 0, ""):
        lines.append(text)
        origins.append(origin)
    return "\n".join(lines) + "\n", tuple(origins)


def quote(text: str) -> str:
    """A double-quoted YAML scalar."""
    return _ESCAPE.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(text, ensure_ascii=False))


def _scalar(value: Data) -> str:
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_PLAIN else quote(key)


def _block(data: Data, indent: int, origin: str) -> Iterator[tuple[str, str]]:
    pad = " " * indent
    if isinstance(data, dict):
        if isinstance(data, Tagged):
            origin = data.field
        if not data:
            yield f"{pad}{{}}", origin
        for key, value in data.items():
            where = value.field if isinstance(value, Tagged) else origin
            if isinstance(value, dict | list | tuple) and value:
                yield f"{pad}{_key(key)}:", where
                yield from _block(value, indent + 2, origin)
            else:
                yield f"{pad}{_key(key)}: {_leaf(value)}", where
    elif isinstance(data, list | tuple):
        for item in data:
            if isinstance(item, dict | list | tuple) and item:
                inner = _block(item, indent + 2, origin)
                text, where = next(inner)
                yield f"{pad}- {text[indent + 2 :]}", where
                yield from inner
            else:
                yield f"{pad}- {_leaf(item)}", origin
    else:
        yield f"{pad}{_scalar(data)}", origin


def _leaf(value: Data) -> str:
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    return _scalar(value)
