"""Finds Go, for programs and the plugin that are compiled by tests."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path


@cache
def find_go(folder: Path) -> str | None:
    """The first Go of PATH or of its usual place that is new enough for the go.mod in `folder`; Debian's may not be."""
    least = _version((folder / "go.mod").read_text(encoding="utf-8"), r"^go (\d+)\.(\d+)")
    for path in (shutil.which("go"), shutil.which("go", path="/usr/local/go/bin")):
        if path is None:
            continue
        said = subprocess.run([path, "version"], capture_output=True, text=True, check=True).stdout
        if _version(said, r"go(\d+)\.(\d+)") >= least:
            return path
    return None


def _version(text: str, pattern: str) -> tuple[int, int]:
    found = re.search(pattern, text, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)
