"""What a start does not import, since each process would pay for it: heavy modules, by the names in `sys.modules`."""

from __future__ import annotations

import subprocess
import sys

ENGINES = ("lbgen.plan.simulate", "lbgen.runtime.common.route_probes", "lbgen.runtime.local.engine_process")
LOOPS = ("asyncio", "h2", "lbgen.agent.run", "lbgen.runtime.standins.server")
SPEC = ("pydantic", "yaml", "jinja2")
CLIENTS = ("docker", "requests", "http.client", "urllib.request", "multiprocessing", "concurrent.futures")
SCREEN = ("rich.console",)


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
    assert not found & {*ENGINES, *LOOPS, *SPEC, *CLIENTS}


def test_the_command_starts_without_what_single_verbs_need() -> None:
    found = imported("import lbgen.cli.main")
    assert not found & {*ENGINES, *LOOPS, *SPEC, *CLIENTS}


def test_the_end_of_a_stack_starts_light() -> None:
    found = imported("import lbgen.runtime.local.supervisor_process")
    assert not found & {*ENGINES, *LOOPS, *SPEC, *CLIENTS, *SCREEN}


def test_a_supervisor_starts_without_what_its_children_run() -> None:
    found = imported("import lbgen.runtime.local.supervisor")
    assert "lbgen.runtime.local.engine_process" in found
    assert not found & {*LOOPS, *SPEC, *SCREEN, "docker", "requests", "multiprocessing"}
