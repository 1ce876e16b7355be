"""Several files, variables, settings and standard input on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from lbgen.cli.main import group

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

BASE = """
version: 1
name: shop
profile: minimal
listeners: { web: { port: "${PORT:-8080}" } }
pools: { app: { endpoints: [{ address: "10.0.0.1:80" }] } }
routes: [{ name: all, forward: app }]
"""
VERBS = {
    "check": ("--no-engines", "--json"),
    "render": ("-e", "haproxy"),
    "explain": ("-e", "haproxy", "--json"),
    "config": (),
    "route": (),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "over.yaml").write_text("listeners: { web: { address: 127.0.0.9 } }\n")
    (tmp_path / "env").write_text("PORT=8086\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PORT", raising=False)
    return tmp_path


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(group, words, input=stdin, catch_exceptions=False)


def rendered(*words: str, stdin: str | None = None) -> str:
    done = run("render", *words, "-e", "haproxy", "--accept", "all", stdin=stdin)
    assert done.exit_code == 0, done.output
    return done.output


def test_files_are_laid_over_each_other(folder: Path) -> None:
    assert "bind 127.0.0.9:8086" in rendered("base.yaml", "-f", "over.yaml", "--env-file", "env")
    assert "bind 127.0.0.9:8086" in rendered("-f", "base.yaml", "-f", "over.yaml", "--env-file", "env")
    assert "bind 127.0.0.9:81" in rendered("base.yaml", "-f", "over.yaml", "--set", "listeners.web.port=81")


def test_standard_input(folder: Path) -> None:
    assert "bind 127.0.0.9:8080" in rendered("-", "-f", "over.yaml", stdin=BASE)
    assert "bind 0.0.0.0:7" in rendered("-f", "base.yaml", "-f", "-", stdin="listeners: { web: { port: 7 } }")


def test_the_profile(folder: Path) -> None:
    logs = [rendered("base.yaml", *more).count("log-format") for more in ((), ("--profile", "production"))]
    assert logs == [0, 1]
    wrong = run("check", "base.yaml", "--profile", "prodution")
    assert (wrong.exit_code, "did you mean 'production'?" in wrong.output) == (2, True)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_them(folder: Path, verb: str) -> None:
    words = ("GET", "http://shop.example:8086/") if verb == "route" else ()
    done = run(verb, "base.yaml", *words, "-f", "over.yaml", "--env-file", "env", *VERBS[verb])
    assert done.exit_code == 0, done.output


def test_config(folder: Path) -> None:
    done = run("config", "base.yaml", "-f", "over.yaml", "--env-file", "env", "--json")
    values = {each["field"]: each for each in json.loads(done.output)}
    port = {"file": "base.yaml", "line": 5, "column": 27, "variables": ["PORT"]}
    assert values["listeners.web.port"] == {"field": "listeners.web.port", "value": 8086, "source": "file"} | port
    assert values["listeners.web.address"]["file"] == "over.yaml"
    assert values["timeouts.connect"]["source"] == "profile"
    assert values["routes[0].priority"]["source"] == "default"


@pytest.mark.parametrize("words", [("check",), ("check", "base.yaml", "--set", "port"), ("check", "x", "--set", "=1")])
def test_wrong_usage(folder: Path, words: tuple[str, ...]) -> None:
    assert run(*words).exit_code == 2
