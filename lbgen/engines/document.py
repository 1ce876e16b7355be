"""Configuration as plain data: what `yaml_writer` writes, with the topology field behind it and comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from lbgen.plan.model import Plan
from lbgen.version import VERSION

if TYPE_CHECKING:
    Data: TypeAlias = "str | int | float | bool | Commented | Mapping[str, Data] | Sequence[Data] | None"


class Tagged(dict[str, "Data"]):
    """A mapping that knows the topology field it came from; lines of nested mappings inherit it."""

    __slots__ = ("field",)

    def __init__(self, field: str, data: Mapping[str, Data]) -> None:
        super().__init__(data)
        self.field = field


class Plain(str):
    """A scalar that is written as it stands, such as one with a tag of its own (`!Ref Name`)."""

    __slots__ = ()


class Commented(Struct, frozen=True):
    """A value of a mapping or a list with comment lines above it, and an empty one before those with `apart`."""

    comment: str
    value: Data
    apart: bool = False


def comment_on(data: Mapping[str, Data], notes: Mapping[str, str]) -> dict[str, Data]:
    """`data` with comments (`notes`) above the lines of these keys."""
    return {key: Commented(notes[key], value) if key in notes else value for key, value in data.items()}


def origin(plan: Plan) -> str:
    """The line of origin in rendered files. Not for those that an engine reads only when it starts: with another
    version of lbgen a reload would have to be refused."""
    return f"lbgen {VERSION}, topology {plan.name}"
