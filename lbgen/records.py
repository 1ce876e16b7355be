"""Plain data classes for what is built once and read once, such as the views that templates print."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_C = TypeVar("_C")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(cls: type[_C]) -> type[_C]:
    """A dataclass with slots that type checkers hold for frozen.

    It has no comparison, hash or repr by its fields, nor a check against changes at run time: Python compiles every
    such method when the class is made, and dozens of these classes are made at each start. What is compared, a key,
    or public is a frozen dataclass.
    """
    return dataclass(eq=False, repr=False, slots=True)(cls)
