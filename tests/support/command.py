"""Runs `lbgen` as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_lbgen(*words: str, cwd: Path = ROOT, state: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of lbgen without colours; with `state` its stacks are there, those of containers unseen."""
    if state is not None:
        env |= {"LBGEN_STATE_DIR": str(state / "state"), "DOCKER_HOST": "unix:///nowhere"}
    return subprocess.run(
        [sys.executable, "-m", "lbgen", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **env},
        timeout=180,
    )
