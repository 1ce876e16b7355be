"""A copy of an engine that another user can run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.diagnostics import EngineError
from lbgen.engines.api import Binary
from lbgen.runtime.local import spawn

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_killed_ldd_is_no_executable_without_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = tmp_path / "ldd"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    which: Callable[[str], str] = lambda _: str(killed)  # noqa: E731
    monkeypatch.setattr(spawn.shutil, "which", which)
    with pytest.raises(EngineError, match="killed by signal 9"):
        spawn.accessible_copy(Binary(Path("/bin/true"), "1.0.0"), tmp_path, spawn.User(65534, 65534))
