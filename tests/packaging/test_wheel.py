"""The wheel, built from the sdist, holds templates, profiles, examples and schema, and works in a fresh environment."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from trove_classifiers import classifiers

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.packaging


def run(fresh: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """lbgen of the fresh environment, where no engine is on PATH."""
    env = {"PATH": str(fresh), "HOME": str(cwd), "LC_ALL": "C.UTF-8", "COLUMNS": "200"}
    argv = [str(fresh / "lbgen"), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=120)


def test_the_wheel_carries_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for kind in ("templates", "profiles", "examples"):
        shipped = {n.removeprefix("lbgen/_data/") for n in names if n.startswith(f"lbgen/_data/{kind}/")}
        source = {
            p.relative_to(ROOT).as_posix()
            for p in (ROOT / kind).rglob("*")
            if p.is_file() and "__pycache__" not in p.parts
        }
        assert shipped == source
    assert not [n for n in names if not n.startswith(("lbgen/", "lbgen-"))]
    assert {"lbgen/py.typed", "lbgen/spec/topology.schema.json"} <= set(names)


def test_the_sdist_builds_and_tests_what_the_checkout_does(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "Dockerfile", "action.yml"} <= names
    assert {".pre-commit-hooks.yaml", "docs/python.md", "tests/packaging/test_wheel.py"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


def test_the_metadata_is_what_an_index_shows(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(archive.read(name).decode())
    given = set(found.get_all("Classifier"))
    assert given <= classifiers
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.13"} <= given
    text = found.get_payload()
    assert isinstance(text, str)
    assert "# lbgen" in text
    relative = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith(("https://", "#"))]
    assert relative == [], "a link that leads nowhere on an index; see the readme hook in pyproject.toml"


def test_it_renders_in_a_fresh_environment(fresh: Path, tmp_path: Path) -> None:
    topology = str(ROOT / "examples/shop/topology.yaml")
    done = run(fresh, "render", topology, "-o", str(tmp_path / "out"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/nginx/nginx.conf").is_file()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["envoy", "haproxy", "nginx", "traefik"]
