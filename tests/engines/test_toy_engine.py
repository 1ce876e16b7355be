"""A sixth engine in a package of its own: every command finds it by its entry point, and nothing else names it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
PACKAGE = Path(__file__).parents[1] / "toy_engine"
PORT = 24_960
TOPOLOGY = f"""\
version: 1
name: toy
listeners:
  db: {{ port: {PORT}, mode: l4 }}
pools:
  nodes: {{ endpoints: [{{ address: "10.9.0.1:5432" }}, {{ address: "10.9.0.2:5432" }}] }}
routes:
  - {{ name: db, listeners: [db], forward: nodes, timeouts: {{ connect: 1s, idle: 5s }} }}
"""

Run = "Callable[..., subprocess.CompletedProcess[str]]"


@pytest.fixture
def lbgen(tmp_path: Path) -> Run:
    """Run `lbgen ARGUMENTS` where the package of the toy is installed."""
    shutil.copytree(PACKAGE, tmp_path / "site")  # as pip does: a folder on the path with its metadata beside it
    (tmp_path / "toy.yaml").write_text(TOPOLOGY)
    env = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "COLUMNS": "200"}

    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "lbgen", *arguments], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


def test_it_is_not_installed_elsewhere() -> None:
    done = subprocess.run([sys.executable, "-m", "lbgen", "explain", "x.yaml", "-e", "toy"], capture_output=True)
    assert done.returncode == 2


def test_it_renders_with_origins_and_is_checked(lbgen: Run) -> None:
    text = lbgen("render", "toy.yaml", "-e", "toy").stdout
    assert f"listen 0.0.0.0 {PORT} 1000 5000\n    endpoint 10.9.0.1 5432\n    endpoint 10.9.0.2 5432\n" in text
    assert "toy.yaml:6:" in lbgen("explain", "toy.yaml", "-e", "toy", "--line", "toy.conf:3").stdout
    lbgen("check", "toy.yaml", "-e", "toy")


def test_its_verdicts_are_shown_and_stop(lbgen: Run, tmp_path: Path) -> None:
    verdicts = json.loads(lbgen("explain", "toy.yaml", "-e", "toy", "--json").stdout)["toy"]
    assert {each["feature"] for each in verdicts if each["verdict"] != "native"} == {"access_log.l4"}
    (tmp_path / "toy.yaml").write_text(TOPOLOGY.replace("mode: l4 }", "mode: l4, access: { deny: [10.0.0.0/8] } }"))
    assert (
        "the toy forwards TCP in round robin and nothing else"
        in lbgen("render", "toy.yaml", "-e", "toy", code=1).stderr
    )


def test_it_runs_and_ends(lbgen: Run) -> None:
    lbgen("up", "toy.yaml", "-e", "toy", "--runtime", "local")
    try:
        (stack,) = json.loads(lbgen("ps", "--json").stdout)
        assert [each["name"] for each in stack["engines"]] == ["toy"]
        with socket.create_connection(("127.0.0.1", PORT), 5) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(65536)
        lbgen("reload", "toy.yaml")
    finally:
        lbgen("down", "toy")
    assert json.loads(lbgen("ps", "--json").stdout) == []


@pytest.mark.drill
def test_it_behaves_as_the_others(lbgen: Run) -> None:
    report = json.loads(lbgen("verify", "toy.yaml", "-e", "toy", "-e", "haproxy", "--json").stdout)
    assert "toy 1.0.0" in {each["engine"] for each in report["results"]}
    assert report["differences"] == []
