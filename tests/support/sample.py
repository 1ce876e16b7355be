"""What `make test` takes of what `make drills` tries whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from _pytest.mark import ParameterSet


def sample(values: Iterable[object], kept: Container[object]) -> list[ParameterSet]:
    """Parameters of a test: those of `kept` always, the others as drills. A tuple is a value for each name."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=() if value in kept else pytest.mark.drill
        )
        for value in values
    ]
