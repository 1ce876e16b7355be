"""What is costly to make, made once for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


@contextmanager
def once(name: str, factory: pytest.TempPathFactory) -> Iterator[tuple[Path, bool]]:
    """Give a path that all workers of this run share, and whether it is still to be made: others wait meanwhile."""
    shared = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    base = factory.getbasetemp()
    path = (base.parent if shared else base) / f"{name}-{shared}"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = path.with_suffix(".made")
        yield path, not made.exists()
        made.touch()
