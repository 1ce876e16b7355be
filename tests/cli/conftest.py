"""What tests of commands share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lbgen.diagnostics import EngineError
from lbgen.engines.api import engine
from lbgen.runtime.common.executables import find


@pytest.fixture
def engine_here() -> Callable[[str], None]:
    """Skip the test, with the reason, unless that engine is installed."""

    def need(name: str) -> None:
        try:
            find(engine(name))
        except EngineError as missing:
            pytest.skip(str(missing))

    return need
