"""Runs `lbgen` as a user does."""

from __future__ import annotations

import os
from contextlib import chdir
from pathlib import Path
from subprocess import CompletedProcess

from click.testing import CliRunner

from lbgen.cli.main import group

ROOT = Path(__file__).parents[2]


def run_lbgen(*words: str, cwd: Path = ROOT, state: Path | None = None, **env: str) -> CompletedProcess[str]:
    """Run a command line of lbgen in this process, without colours; with `state` its stacks are there, those of
    containers unseen."""
    if state is not None:
        env |= {"LBGEN_STATE_DIR": str(state / "state"), "DOCKER_HOST": "unix:///nowhere"}
    with chdir(cwd):
        done = CliRunner().invoke(group, words, env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **env})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return CompletedProcess(words, done.exit_code, done.stdout, done.stderr)
