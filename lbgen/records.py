"""What data classes share: most are records (msgspec.Struct, cheap to define, of which every start defines hundreds);
dataclasses are what is printed as JSON with a schema, and what is compared by a part of its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar, cast

import msgspec.structs
from msgspec import Struct

_C = TypeVar("_C")


def replace(data: _C, **changes: object) -> _C:
    """A copy of a record or a dataclass with other values in some fields."""
    if isinstance(data, Struct):
        return msgspec.structs.replace(data, **changes)
    return cast("_C", dataclasses.replace(cast("Any", data), **changes))  # noqa: TID251  # the one place


def field_names(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a record or a dataclass; None of any other class."""
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    return tuple(each.name for each in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def defaults(kind: type) -> dict[str, object]:
    """The defaults of the fields of a record or a dataclass that have one."""
    if issubclass(kind, Struct):
        values = kind.__struct_defaults__
        return dict(zip(kind.__struct_fields__[-len(values) :], values, strict=True)) if values else {}
    found = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return {each.name: each.default for each in found if each.default is not dataclasses.MISSING}


def as_json(data: _C) -> _C:
    """The fields of a dataclass as a JSON object, typed as the dataclass, whose schema is that of the object."""
    return cast("_C", asdict(cast("Any", data)))


def counted(numbers: Mapping[str, int]) -> str:
    """`1 listener, 2 pools` of `{"listener": 1, "pool": 2}`, for short forms of objects."""
    return ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for noun, number in numbers.items())
