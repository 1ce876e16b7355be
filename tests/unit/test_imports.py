"""What a start does not import, since each process would pay for it: heavy modules, by the names in `sys.modules`."""

from __future__ import annotations

import subprocess
import sys

LOADED_BY_NEED = ("docker", "requests", "pydantic", "yaml", "jinja2", "h2", "lbgen.plan.simulate")


def imported(code: str) -> set[str]:
    """The modules that a new process has after `code`."""
    code += "\nimport sys; print(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        .stdout.splitlines()[-1]
        .split()
    )


def test_the_help_starts_light() -> None:
    found = imported(
        "import contextlib, lbgen.cli.main\nwith contextlib.suppress(SystemExit): lbgen.cli.main.group(['--help'])"
    )
    assert not found & set(LOADED_BY_NEED)


def test_what_finds_stacks_needs_no_docker_sdk() -> None:
    """It is an optional dependency."""
    found = imported("import lbgen.api, lbgen.cli.stacks, lbgen.cli.logs, lbgen.runtime.docker.stack")
    assert not found & {"docker", "requests"}
