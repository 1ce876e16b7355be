"""The values of one type in a topology, wherever its models have a field for them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel


def find_values(model: BaseModel, kind: object, place: str = "") -> Iterator[tuple[str, Any]]:
    """The values of `kind` in a model and in those below it, each with its field, in the order of the models.

    `kind` is the class of a model, or an annotated type of `lbgen.spec.values` for text, such as `FilePath`. `place` is
    the field of the model itself.
    """
    mark = kind if isinstance(kind, type) else get_args(kind)[1]
    wanted = kind if isinstance(kind, type) else str
    left: list[tuple[str, Any]] = [(place, model)]
    while left:
        at, value = left.pop()
        if value is None:
            continue
        if isinstance(value, wanted):
            yield at, value
        elif isinstance(value, BaseModel):
            dot = f"{at}." if at else ""
            fields = [(f"{dot}{key}", getattr(value, key)) for key in _leading(type(value), mark)]
            left += fields[::-1]
        elif isinstance(value, list):
            left += [(f"{at}[{index}]", each) for index, each in enumerate(value)][::-1]
        elif isinstance(value, dict):
            left += [(f"{at}.{name}", each) for name, each in value.items()][::-1]


@cache
def _leading(model: type[BaseModel], mark: object) -> tuple[str, ...]:
    """The fields of a model that have such values, or other models with them. `mark`: the class, or the validator by
    which the type of a text is known."""
    found = []
    for key, field in model.model_fields.items():
        parts = [*field.metadata, *_parts(field.annotation)]
        models = (each for each in parts if isinstance(each, type) and issubclass(each, BaseModel))
        if mark in parts or any(_leading(each, mark) for each in models):
            found.append(key)
    return tuple(found)


def _parts(annotation: object) -> Iterator[object]:
    """All that an annotation is made of."""
    yield annotation
    for each in get_args(annotation):
        yield from _parts(each)
