"""--quiet and --verbose: one mechanism for every verb."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lbgen.cli.main import VERBS, group
from lbgen.cli.output import Verbosity
from lbgen.cli.up import Steps
from tests.support.command import run_lbgen

TOPOLOGY = """
version: 1
name: shop
listeners: { web: { port: 8080 } }
pools: { app: { endpoints: [{ address: "10.0.0.1:80" }] }, unused: { endpoints: [{ address: "10.0.0.2:80" }] } }
routes: [{ name: all, forward: app }]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "t.yaml").write_text(TOPOLOGY, encoding="utf-8")
    return str(tmp_path / "t.yaml")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_both(verb: str) -> None:
    command = group.get_command(click.Context(group), verb)
    assert command is not None
    for each in (command, *(command.commands.values() if isinstance(command, click.Group) else ())):
        found = [option for parameter in each.params for option in parameter.opts]
        for option in ("-q", "--quiet", "-v", "--verbose"):
            assert found.count(option) == 1, (each.name, option)


def test_quiet_leaves_errors_and_results(file: str) -> None:
    run = CliRunner()
    said = run.invoke(group, ["check", file, "--no-engines"])
    assert "advice LB" in said.stderr
    assert "no errors" in said.stdout
    quiet = run.invoke(group, ["check", file, "--no-engines", "-q"])
    assert (quiet.exit_code, quiet.output) == (0, "")
    wrong = run.invoke(group, ["check", file, "--no-engines", "-q", "--set", "routes[all].forward=nowhere"])
    assert wrong.exit_code == 1
    assert "error LB" in wrong.stderr
    assert "advice" not in wrong.stderr
    rendered = run.invoke(group, ["render", file, "-e", "haproxy", "-q"])
    assert rendered.stdout == run.invoke(group, ["render", file, "-e", "haproxy"]).stdout
    assert rendered.stderr == ""


def test_verbose_explains_findings(file: str) -> None:
    said = CliRunner().invoke(group, ["check", file, "--no-engines", "-v"])
    assert "cause: " in said.stderr
    assert "remedy: " in said.stderr


def test_verbose_explains_an_error_that_ends_a_command(file: str) -> None:
    done = run_lbgen("render", file, "--set", "routes[all].forward=nowhere", "-v")
    assert done.returncode == 1
    assert "cause: " in done.stderr
    assert "cause: " not in run_lbgen("render", file, "--set", "routes[all].forward=nowhere").stderr


def test_verbose_tells_the_time_of_steps(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    now = [0.0]
    for level in (Verbosity.NORMAL, Verbosity.VERBOSE):
        with click.Context(group) as context, Console(stderr=True).status("x") as status:
            context.meta["lbgen.verbosity"] = level
            now[0] = 0.0
            steps = Steps(status, "x", lambda: now[0])
            now[0] = 1.5
            steps._print("done")
        assert ("1.50 s" in capsys.readouterr().err) is (level is Verbosity.VERBOSE)


def test_both_are_refused(file: str) -> None:
    done = CliRunner().invoke(group, ["check", file, "-q", "-v"])
    assert done.exit_code == 2
    assert "exclude each other" in done.stderr


def test_standard_input_is_one_side_of_a_diff(file: str) -> None:
    other = TOPOLOGY.replace("forward: app", "respond: { status: 204 }")
    done = CliRunner().invoke(group, ["diff", file, "-", "--json"], input=other)
    assert done.exit_code == 4
    assert '"same": false' in done.stdout
    assert CliRunner().invoke(group, ["diff", "-", file], input=TOPOLOGY).exit_code == 0
    assert CliRunner().invoke(group, ["diff", "-", "-"], input=other).exit_code == 2
