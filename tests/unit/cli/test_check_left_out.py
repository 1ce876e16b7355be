"""`lbgen check` in formats for tools names the engines that are left out, with the way back, as its text does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from lbgen.cli.main import group
from lbgen.diagnostics import Diagnostic, EngineError, LbgenError

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOP = str(Path(__file__).parents[3] / "examples/shop/topology.yaml")
WAY = "--accept timeouts.idle"


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """HAProxy is checked, nginx wants something accepted, and no other engine is installed."""

    def answer(_plan: object, name: str, **_: Any) -> Sequence[Diagnostic]:
        if name == "haproxy":
            return []
        if name == "nginx":
            raise LbgenError(Diagnostic("LB302", "differs", field="timeouts.idle", accept="timeouts.idle"))
        raise EngineError(Diagnostic("LB402", "no executable of it was found"))

    monkeypatch.setattr("lbgen.cli.check.check", answer)


def run(*words: str) -> Result:
    return CliRunner().invoke(group, ("check", SHOP, *words))


def test_json() -> None:
    done = run("--json")
    assert done.exit_code == 0
    found = {each["message"]: each for each in json.loads(done.stdout) if each["code"] == "LB308"}
    assert "HAProxy" not in str(found)
    left_out = found["nginx is left out"]
    assert (left_out["severity"], left_out["file"], left_out["hint"]) == ("advice", SHOP, WAY)
    assert found["Traefik is not checked"]["hint"] == "no executable of it was found"


def test_it_is_what_the_text_says() -> None:
    assert f"nginx: left out: {WAY}" in run().output


def test_sarif_and_github() -> None:
    sarif = json.loads(run("--format", "sarif").stdout)
    texts = {each["message"]["text"]: each["level"] for each in sarif["runs"][0]["results"]}
    assert texts[f"nginx is left out; {WAY}"] == "note"
    assert f"title=LB308::nginx is left out; {WAY}" in run("--format", "github").stdout


def test_it_can_be_hidden_and_an_engine_by_name_is_no_advice() -> None:
    assert "LB308" not in run("--json", "--ignore", "LB308").stdout
    named = run("--json", "-e", "nginx")
    assert named.exit_code == 1
    assert [each["code"] for each in json.loads(named.stdout)][-1] == "LB302"
