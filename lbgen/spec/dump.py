"""Writes a model or plain data as YAML text that every YAML parser reads alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lbgen.spec.scalars import is_plain_text
from lbgen.spec.variables import escape_references

if TYPE_CHECKING:
    from pydantic import BaseModel

_BARE = re.compile(r"[A-Za-z0-9./_][A-Za-z0-9./_=+*-]*")
_LONGEST_KEY = 1000  # YAML looks for the colon no further than 1024 characters
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def dump_topology(model: BaseModel) -> str:
    """The topology as YAML, only what it or its profile sets; loading it gives an equal model."""
    return dump(model.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def dump(data: dict[str, Any]) -> str:
    """Mappings, lists, text, numbers and truth values as YAML in block style, keys in their order."""
    return "".join(f"{line}\n" for line, _ in lines(data))


def lines(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The lines of `dump`, each with the field whose value it holds; "" where the value begins on the next line."""
    return _mapping(data, "")


class Reference(str):
    """A text with references to variables, which is written as it is."""

    __slots__ = ()


def scalar(value: object) -> str:
    """One value on one line; text is quoted wherever a parser might read another type, and refers to no variable."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return format(value)
    return _text(str(value) if isinstance(value, Reference) else escape_references(str(value)))


def flow(value: object) -> str:
    """A value on one line: mappings and lists in flow style."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_text(key)}: {flow(item)}' for key, item in value.items())} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    return scalar(value)


def _text(text: str) -> str:
    return text if _BARE.fullmatch(text) and is_plain_text(text) else _quoted(text)


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (c if " " <= c <= "~" else _escape(ord(c))) for c in text) + '"'


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _mapping(data: dict[str, Any], indent: str, path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        name = f"{indent}{_text(key)}:"
        field = f"{path}.{key}" if path else key
        if len(name) > _LONGEST_KEY:
            yield f"{indent}? {_text(key)}", ""
            name = f"{indent}:"
        if isinstance(value, dict) and value:
            yield name, ""
            yield from _mapping(value, indent + "  ", field)
        elif isinstance(value, list) and value:
            yield name, ""
            yield from _list(value, indent + "  ", field)
        else:
            yield f"{name} {_leaf(value)}", field


def _list(data: list[Any], indent: str, path: str) -> Iterator[tuple[str, str]]:
    for index, item in enumerate(data):
        inner, field = indent + "  ", f"{path}[{index}]"
        if isinstance(item, dict | list) and item:
            lines = _mapping(item, inner, field) if isinstance(item, dict) else _list(item, inner, field)
            first, of = next(lines)
            yield f"{indent}- {first[len(inner) :]}", of
            yield from lines
        else:
            yield f"{indent}- {_leaf(item)}", field


def _leaf(value: object) -> str:
    return "{}" if value == {} else "[]" if value == [] else scalar(value)
