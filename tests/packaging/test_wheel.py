"""The wheel, built from the sdist, holds templates, profiles and starters and works in a fresh environment."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_carries_its_data_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for kind in ("templates", "profiles"):
        shipped = {n.removeprefix("lbgen/_data/") for n in names if n.startswith(f"lbgen/_data/{kind}/")}
        source = {
            p.relative_to(ROOT).as_posix()
            for p in (ROOT / kind).rglob("*")
            if p.is_file() and "__pycache__" not in p.parts
        }
        assert shipped == source
    assert not [n for n in names if not n.startswith(("lbgen/", "lbgen-"))]
    assert {
        "lbgen/py.typed",
        "lbgen/spec/starters/minimal.yaml",
        "lbgen/html/page.html.j2",
        "lbgen/html/page.css",
    } <= set(names)


def test_it_renders_in_a_fresh_environment(wheel, tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", str(wheel)], check=True, capture_output=True)
    topology = ROOT / "examples/shop/topology.yaml"
    done = subprocess.run(
        [str(venv / "bin/lbgen"), "render", str(topology), "-o", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/nginx/nginx.conf").is_file()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["envoy", "haproxy", "nginx", "traefik"]
