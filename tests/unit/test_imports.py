"""What a start does not import, since each process would pay for it: heavy modules, by the names in `sys.modules`."""

from __future__ import annotations

import subprocess
import sys

import pytest


def imported(code: str) -> set[str]:
    """The modules that a new process has after `code`."""
    code += "; import sys; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("verb", ["down", "ps", "logs", "stats"])
def test_commands_that_find_stacks_need_no_docker_sdk(verb: str) -> None:
    """It is an optional dependency."""
    found = imported(f"import lbgen.api, lbgen.cli.main, lbgen.cli.{verb}, lbgen.runtime.docker.stack")
    assert not found & {"docker", "requests"}
