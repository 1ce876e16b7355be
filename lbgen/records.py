"""Light data classes for objects that are built and read once, such as the views of templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar, cast, dataclass_transform

_C = TypeVar("_C")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(cls: type[_C]) -> type[_C]:
    """A dataclass with slots that type checkers treat as frozen.

    It has no comparison, hash or repr by fields and is not frozen at run time: Python compiles each such method when
    the class is created, and every start creates dozens of these classes. Use a frozen dataclass for what is compared,
    a key, or public.
    """
    return dataclass(eq=False, repr=False, slots=True)(cls)


def as_json(data: _C) -> _C:
    """The fields of a dataclass as a JSON object, typed as the dataclass, whose schema is that of the object."""
    return cast("_C", asdict(cast("Any", data)))


def counted(numbers: Mapping[str, int]) -> str:
    """`1 listener, 2 pools` of `{"listener": 1, "pool": 2}`, for short forms of objects."""
    return ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for noun, number in numbers.items())
