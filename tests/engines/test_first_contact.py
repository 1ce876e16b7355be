"""What a new user does: every starter, example and topology written from the documentation (tests/docs/topologies)
through every command, as root and as nobody, near and far.

`make test` takes one combination of user, working folder and way of naming the file for a fifth of the topologies, with
the commands on a running stack or with those that only read. tests/verify runs all engines on starters and examples.
A drill runs every combination with all commands.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.runtime.common.certificates import write_self_signed
from lbgen.spec.starter import starters

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
# lab.py runs direct-routing, on hosts of its own.
EXAMPLES = sorted({path.parent.name for path in (ROOT / "examples").glob("*/topology.yaml")} - {"direct-routing"})
WRITTEN = ROOT / "tests/docs/topologies"
SHAPES = (
    *(f"init:{name}" for name in starters()),
    *(f"examples:{name}" for name in EXAMPLES),
    *(f"docs:{path.stem}" for path in sorted(WRITTEN.glob("*.yaml"))),
)
NO_WAY_BACK = re.compile(r"^(Envoy|HAProxy|nginx|Traefik): left out: (?!.*(--accept|change or drop))", re.MULTILINE)
USERS = ("root", "nobody")
NOBODY = 65534
PARTS = ("running", "reading")  # commands besides init and check
NAMINGS = ("relative", "absolute", "from-elsewhere")  # how the command line names the file, and from which folder

pytestmark = [pytest.mark.engines, pytest.mark.root, pytest.mark.xdist_group("runtime")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = list(itertools.product(USERS, NAMINGS))
    cases = [(shape, user, naming, "all") for shape in SHAPES for user, naming in every]
    if not metafunc.config.getoption("--drills"):
        some = enumerate(SHAPES[::5])
        # Both users, and all ways to name the file: the first ones are unlike each other.
        cases = [(shape, *every[(5 * n + 1) % len(every)], PARTS[n % len(PARTS)]) for n, shape in some]
    metafunc.parametrize(("shape", "user", "naming", "part"), cases, ids=["-".join(case) for case in cases])


@dataclass(frozen=True)
class User:
    """Runs lbgen's command line as one user, in one folder, with a state folder of its own."""

    name: str
    python: str
    home: Path
    cwd: Path

    def lbgen(self, *words: object, expect: int = 0) -> str:
        """Run a command, assert its exit code and that it shows no traceback, and return its whole output."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LBGEN_", "PYTEST_"))}
        ids = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if self.name == "nobody" else {}
        done = subprocess.run(
            [self.python, "-m", "lbgen", *map(str, words)],
            cwd=self.cwd,
            env={
                **kept,
                "HOME": str(self.home),
                "PATH": f"{self.home / 'closed'}{os.pathsep}{os.environ['PATH']}",  # as after `sudo -u`
                "LBGEN_STATE_DIR": str(self.home / "state"),
                "DOCKER_HOST": f"unix://{self.home}/no-docker.sock",  # other tests' containers are other stacks
                "PYTHONPATH": os.pathsep.join((str(ROOT), sysconfig.get_path("purelib"))),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
            **ids,
        )
        assert "Traceback" not in done.stdout, done.stdout
        assert done.returncode == expect, f"lbgen {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def home() -> Iterator[Path]:
    """A home folder that every user can enter; pytest's own temporary folders are closed to others."""
    with tempfile.TemporaryDirectory(prefix="lbgen-home-") as made:
        home = Path(made)
        home.chmod(0o755)
        (home / "project").mkdir()
        (home / "elsewhere").mkdir()
        (home / "closed").mkdir(mode=0o700)
        yield home


def test_every_command_works_on_it(shape: str, user: str, naming: str, part: str, home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    project = home / "project"
    kind, _, name = shape.partition(":")
    if kind == "examples":
        shutil.copytree(ROOT / "examples" / name, project, dirs_exist_ok=True)
    if kind == "docs":
        shutil.copy(WRITTEN / f"{name}.yaml", project / "topology.yaml")
        (project / "sticky.key").write_text("a secret of more than sixteen bytes\n", encoding="utf-8")
        (project / "certs").mkdir()
        write_self_signed(project / "certs/site.crt", project / "certs/site.key", ("localhost",))
    if user == "nobody":
        for path in (home, *home.rglob("*")):
            if path.name == "closed":
                continue
            os.chown(path, NOBODY, NOBODY)
    me = User(user, _python(user), home, home / "elsewhere" if naming == "from-elsewhere" else project)
    file = {"relative": "topology.yaml", "absolute": project / "topology.yaml"}.get(naming, "../project/topology.yaml")
    if kind == "init":
        me.lbgen("init", "--template", name, file)

    said = me.lbgen("check", file)
    assert kind == "examples" or not NO_WAY_BACK.search(said), said
    if part != "running":
        me.lbgen("render", file, "-o", home / "out")
        me.lbgen("explain", file)
        me.lbgen("diff", file, file)
    if part == "reading":
        return
    try:
        me.lbgen("up", file, "--runtime", "local")
        assert me.lbgen("ps")
        me.lbgen("reload", file)
        me.lbgen("stats")
        if part == "all":
            me.lbgen("verify", file, "--requests", 60)
    finally:
        me.lbgen("down")
    assert "no stack is running" in me.lbgen("ps")


def _python(user: str) -> str:
    """Return an interpreter of our version that the user can run: ours, or the system's where ours is in a home."""
    ours = sys.executable
    if user == "root":
        return ours
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    system = shutil.which(version, path="/usr/local/bin:/usr/bin")
    found = next((path for path in (ours, system) if path and not _closed(path)), None)
    if found is None or _closed(str(ROOT / "lbgen")) or _closed(sysconfig.get_path("purelib")):
        pytest.skip(f"nobody can run neither {ours} nor a {version} of the system, or not read this checkout")
    return found


def _closed(path: str) -> bool:
    """Tell whether a folder above `path`, or above what it links to, is closed to other users."""
    both = {*Path(path).parents, *Path(path).resolve().parents}
    return any(not folder.stat().st_mode & 0o001 for folder in both)
