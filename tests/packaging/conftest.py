"""What tests of the package share: the wheel, built from the sdist, and an environment that holds it alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shared import once

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sdist and of the wheel that is built from it."""
    with once("dist", tmp_path_factory) as (out, missing):
        if missing:
            # By the backend of this environment: an isolated one, installed twice, takes longer than the build.
            build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
            subprocess.run(build, check=True, capture_output=True)
    return out


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="session")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the wheel and what it needs, without engines."""
    with once("venv", tmp_path_factory) as (venv, missing):
        if missing:
            subprocess.run([sys.executable, "-m", "virtualenv", "-q", str(venv)], check=True)  # pre-commit needs it
            pip = [str(venv / "bin/pip"), "install", "-q", "--no-compile", str(wheel)]
            subprocess.run(pip, check=True, capture_output=True)
    return venv / "bin"
