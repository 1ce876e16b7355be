"""What tests of commands share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.engine_lists import need_binary


@pytest.fixture
def engine_here() -> Callable[[str], None]:
    """Skip the test, with the reason, unless that engine is installed."""

    def need(name: str) -> None:
        need_binary(name)

    return need
