"""The command that `lbgen init` prints last: `lbgen up` takes its words, and a route serves its request."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from lbgen.cli.main import group
from lbgen.cli.up import up_command as up
from lbgen.spec.starter import starters

FILE = "with space.yaml"


@pytest.mark.parametrize("template", starters())
def test_the_next_command_fits_its_topology(template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(group, ["init", "--template", template, FILE])
    assert done.exit_code == 0, done.output
    last = done.output.splitlines()[-1]
    assert last.startswith("next: lbgen up ")
    first, _, request = last.removeprefix("next: lbgen up ").partition(" && ")
    given = up.make_context("up", shlex.split(first)).params  # a usage error for words that it does not take
    assert given["topology"] == FILE
    if template == "l4":
        assert not request
        return
    curl, *words, url = shlex.split(request)
    assert curl == "curl"
    headers = [word for word in words if word not in ("-k", "-i")]  # what is left is -H and its value
    asked = CliRunner().invoke(group, ["route", FILE, "GET", url, *headers, "--json"])
    assert asked.exit_code == 0, asked.output
    found = json.loads(asked.stdout)
    assert found["pool"] or found["pools"], found
