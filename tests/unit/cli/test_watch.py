"""--watch: what is read is watched, changes are awaited until they end, Ctrl-C ends with its exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import lbgen
from lbgen.cli.main import group
from lbgen.cli.topology_files import watch
from lbgen.diagnostics import Diagnostic, LbgenError
from lbgen.runtime.common.tokens import public_keys
from lbgen.spec.source import record_reads

BASE = """
version: 1
name: shop
profile: ./own.yaml
include: [teams/*.yaml]
listeners: { web: { port: 8080 } }
error_pages: { 404: { file: 404.html } }
pools: { app: { endpoints: [{ address: "10.0.0.1:80" }], sticky: { cookie: at, secret: secret } } }
routes:
  - name: tokens
    match: [{ path: { prefix: /api } }]
    forward: app
    auth: { jwt: { issuer: us, audience: [api], jwks: jwks.json } }
  - { name: all, forward: app, auth: { basic: { users: users.htpasswd } } }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "teams").mkdir()
    (tmp_path / "t.yaml").write_text(BASE)
    (tmp_path / "own.yaml").write_text("access_log: none\n")
    (tmp_path / "over.yaml").write_text("max_body: 1MiB\n")
    (tmp_path / "teams/a.yaml").write_text("routes: [{ name: a, match: [{ path: { exact: /a } }], forward: app }]\n")
    (tmp_path / "vars").write_text("A=1\n")
    (tmp_path / "404.html").write_text("gone\n")
    (tmp_path / "users.htpasswd").write_text("anna:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
    (tmp_path / "jwks.json").write_text(public_keys())
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    return tmp_path


def test_overlays_profiles_includes_and_their_folder_are_recorded(folder: Path) -> None:
    with record_reads() as seen:
        lbgen.load([folder / "t.yaml", folder / "over.yaml"])
    assert {path.relative_to(folder).as_posix() for path in seen} == {
        "t.yaml",
        "over.yaml",
        "own.yaml",
        "teams",
        "teams/a.yaml",
    }
    with record_reads() as seen, pytest.raises(LbgenError):
        lbgen.load(folder / "gone.yaml")
    assert seen == {folder / "gone.yaml"}


def test_it_runs_again_once_after_several_writes_and_after_findings(folder: Path) -> None:
    runs: list[float] = []
    file = folder / "t.yaml"

    def write() -> None:
        time.sleep(0.5)
        for text in ("a", "", BASE):
            file.write_text(text)
            time.sleep(0.05)

    writer = threading.Thread(target=write)

    def run() -> None:
        lbgen.load(file)
        runs.append(time.monotonic())
        if len(runs) == 1:
            writer.start()
            raise LbgenError(Diagnostic("LB110", "printed"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(run, "t.yaml")
    writer.join()
    assert len(runs) == 2


_NAMED = ["404.html", "users.htpasswd", "jwks.json", "secret"]


@pytest.mark.parametrize("name", ["t.yaml", "over.yaml", "own.yaml", "teams/a.yaml", "teams/new.yaml", "vars", *_NAMED])
def test_a_change_of_any_file_runs_the_command_again(folder: Path, name: str) -> None:
    changed = "\n" if name in _NAMED else "# changed\n"
    line = ["check", "t.yaml", "-f", "over.yaml", "--env-file", "vars", "--no-engines", "--watch"]
    process = subprocess.Popen(
        [sys.executable, "-m", "lbgen", *line], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        while "watching" not in (said := process.stderr.readline()):
            assert said, "it ended"
        path = folder / name
        path.write_text((path.read_text() if path.exists() else "pools: {}\n") + changed)
        heard = ""
        while "watching" not in heard:
            said = process.stderr.readline()
            assert said, "it ended"
            heard += said
        assert "changed" in heard
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out.count("no errors") == 2


def test_standard_input_cannot_be_watched() -> None:
    done = CliRunner().invoke(group, ["render", "-", "--watch"], input=BASE)
    assert done.exit_code == 2
