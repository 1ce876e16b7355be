"""Relative files of a topology with a relative path, and a relative state directory, from any working directory.

test_first_contact calls every command from elsewhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.runtime.common import state
from lbgen.runtime.common.certificates import Spec, make
from tests.engines.test_local_runtime import need
from tests.support.command import run_lbgen
from tests.support.sample import sample

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
PORT = 24_540
ENGINE = "haproxy"
PLACES = ("the folder", "a parent", "elsewhere")


@pytest.fixture(autouse=True)
def engines_here() -> None:
    need(ENGINE)


def topology(tmp_path: Path, path: str = "/old") -> Path:
    """A file beside a folder with the certificate that it names by a relative path."""
    folder = tmp_path / "work" / "site"
    (folder / "certs").mkdir(parents=True, exist_ok=True)
    if not (folder / "certs" / "app.crt").exists():
        make(folder / "certs", (Spec("app", ("app.example",)),))
    pair = {"cert": "certs/app.crt", "key": "certs/app.key"}
    made = {
        "version": 1,
        "name": "relative",
        "profile": "minimal",
        "listeners": {"web": {"port": PORT, "tls": {"certificates": [pair]}}},
        "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}]}},
        "routes": [{"name": "rest", "match": [{"path": {"prefix": path}}], "forward": "app"}],
    }
    file = folder / "site.yaml"
    file.write_text(json.dumps(made))
    return file


def stand(where: str, tmp_path: Path) -> Path:
    """The working directory that is meant."""
    made = {"the folder": tmp_path / "work/site", "a parent": tmp_path / "work", "elsewhere": tmp_path / "else/where"}
    made[where].mkdir(parents=True, exist_ok=True)
    return made[where]


def command(cwd: Path, *words: str, expect: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    done = run_lbgen(*words, cwd=cwd, **env)
    assert done.returncode == expect, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


@pytest.mark.parametrize("where", sample(PLACES, ("elsewhere",)))
def test_the_library(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = topology(tmp_path)
    monkeypatch.chdir(stand(where, tmp_path))
    loaded = lbgen.load(os.path.relpath(real))
    monkeypatch.chdir("/")  # what was loaded is not looked for anew
    with lbgen.up(loaded, engine=ENGINE, runtime="local"):
        lbgen.reload(loaded)
    assert "tls/app.crt" in lbgen.render(loaded, engine=ENGINE).write(tmp_path / "out")[0].as_posix()
    if where == "elsewhere":
        assert lbgen.verify(loaded, engines=[ENGINE], requests=1).green


def test_a_relative_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = topology(tmp_path)
    cwd = stand("elsewhere", tmp_path)
    command(cwd, "up", str(real), "-e", ENGINE, "--runtime", "local", LBGEN_STATE_DIR="rel")
    assert (cwd / "rel" / "stacks" / "relative").is_dir()
    assert not Path("/rel").exists()
    assert "running" in command(cwd, "ps", LBGEN_STATE_DIR="rel").stdout
    command(cwd, "down", LBGEN_STATE_DIR="rel")
    assert not list((cwd / "rel" / "stacks").iterdir())
    monkeypatch.setenv("LBGEN_STATE_DIR", "kept")
    monkeypatch.chdir(cwd)
    assert state.root() == cwd / "kept"
    monkeypatch.chdir("/")
    assert state.root() == cwd / "kept"


def test_a_relative_executable(tmp_path: Path) -> None:
    """The supervisor works in another directory than the command."""
    from lbgen.engines.api import engine
    from lbgen.runtime.common.executables import find

    found, _ = find(engine(ENGINE))
    real = topology(tmp_path)
    cwd = stand("elsewhere", tmp_path)
    relative = os.path.relpath(found.path, cwd)
    command(cwd, "up", str(real), "-e", ENGINE, "--runtime", "local", LBGEN_HAPROXY=relative)
    command(cwd, "down", "relative")


def test_a_file_that_vanished_is_a_finding_with_place_and_remedy(tmp_path: Path) -> None:
    real = topology(tmp_path)
    loaded = lbgen.load(real)
    plan = lbgen.plan(loaded)
    (real.parent / "certs" / "app.key").unlink()
    with pytest.raises(EngineError) as raised:
        lbgen.up(plan, engine=ENGINE, runtime="local")
    [finding] = raised.value.diagnostics
    assert (finding.code, finding.field) == ("LB424", "listeners.web.tls.certificates[0].key")
    assert finding.span.file == str(real)
    assert finding.span.line == 1
    assert str(real.parent / "certs/app.key") in finding.message
    assert finding.hint
    assert not list(state.root().glob("stacks/*"))


def test_a_key_that_may_not_be_read() -> None:
    with tempfile.TemporaryDirectory(prefix="lbgen-test-") as made:  # pytest's own is closed to others
        folder = Path(made)
        folder.chmod(0o755)
        real = topology(folder)
        (real.parent / "certs" / "app.key").chmod(0o600)
        run = as_nobody(folder)
        for words in (("up", str(real), "-e", ENGINE, "--runtime", "local"), ("render", str(real), "-o", "out")):
            done = run("-m", "lbgen", *words)
            assert done.returncode == 3, done.stderr
            assert "Traceback" not in done.stderr
            shown = " ".join(done.stderr.split())
            assert f"{real}:1:" in shown
            assert "listeners.web.tls.certificates[0].key" in shown
            remedies = ("readable for the user who runs lbgen", "let the user nobody read it")  # LB211, LB424
            assert any(remedy in shown for remedy in remedies), shown


def as_nobody(folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """How to run Python as nobody, who may be unable to reach the one of these tests."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become nobody")
    home = folder / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    base = Path(lbgen.__file__).parents[1]
    site = [each for each in sys.path if "site-packages" in each]
    env = {"HOME": str(home), "LBGEN_STATE_DIR": str(home / "state"), "PYTHONPATH": ":".join((str(base), *site))}

    def run(*words: str, python: str = "") -> subprocess.CompletedProcess[str]:
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python or chosen, *words]
        return subprocess.run(argv, cwd=home, env={**os.environ, **env}, capture_output=True, text=True, check=False)

    for chosen in (sys.executable, "/usr/bin/python3"):
        probe = "import subprocess, sys, lbgen; subprocess.run([sys.executable, '-V'], check=True)"
        if run("-c", probe, python=chosen).returncode == 0:
            return run
    pytest.skip("nobody can run no Python here")
