"""Writes a model or plain data as YAML text that every YAML parser reads alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lbgen.spec.scalars import is_plain_text

if TYPE_CHECKING:
    from lbgen.spec.model import TopologyModel

_BARE = re.compile(r"[A-Za-z0-9./_][A-Za-z0-9./_=+*-]*")
_LONGEST_KEY = 1000  # YAML looks for the colon no further than 1024 characters
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def dump_topology(model: TopologyModel) -> str:
    """The topology as YAML, only what it or its profile sets; loading it gives an equal model."""
    return dump(model.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def dump(data: dict[str, Any]) -> str:
    """Mappings, lists, text, numbers and truth values as YAML in block style, keys in their order."""
    return "".join(f"{line}\n" for line in _mapping(data, ""))


def scalar(value: object) -> str:
    """One value on one line; text is quoted wherever a parser might read another type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    return text if _BARE.fullmatch(text) and is_plain_text(text) else _quoted(text)


def flow(value: object) -> str:
    """A value on one line: mappings and lists in flow style."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{scalar(key)}: {flow(item)}' for key, item in value.items())} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    return scalar(value)


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (c if " " <= c <= "~" else _escape(ord(c))) for c in text) + '"'


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _mapping(data: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in data.items():
        name = f"{indent}{scalar(key)}:"
        if len(name) > _LONGEST_KEY:
            yield f"{indent}? {scalar(key)}"
            name = f"{indent}:"
        if isinstance(value, dict) and value:
            yield name
            yield from _mapping(value, indent + "  ")
        elif isinstance(value, list) and value:
            yield name
            yield from _list(value, indent + "  ")
        else:
            yield f"{name} {_leaf(value)}"


def _list(data: list[Any], indent: str) -> Iterator[str]:
    for item in data:
        inner = indent + "  "
        if isinstance(item, dict | list) and item:
            lines = _mapping(item, inner) if isinstance(item, dict) else _list(item, inner)
            yield f"{indent}- {next(lines)[len(inner) :]}"
            yield from lines
        else:
            yield f"{indent}- {_leaf(item)}"


def _leaf(value: object) -> str:
    return "{}" if value == {} else "[]" if value == [] else scalar(value)
