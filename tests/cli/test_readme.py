"""README.md: its generated blocks are fresh, its commands run, its Python runs, its examples exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
sys.path.insert(0, str(ROOT / "tests"))

import readme  # noqa: E402


def test_generated_blocks_are_fresh():
    assert readme.stale() == [], "run python tests/readme.py --update"


def test_the_matrix_comes_from_a_run():
    block = README.partition("<!-- conformance:begin -->")[2].partition("<!-- conformance:end -->")[0]
    assert "| **all** |" in block, "run make matrix"
    for engine in ("envoy", "haproxy", "nginx", "traefik", "nftables"):
        assert engine in block


def test_examples_are_listed_and_have_ten_line_readmes():
    for folder in sorted((ROOT / "examples").iterdir()):
        if (folder / "topology.yaml").is_file():
            assert f"[{folder.name}](examples/{folder.name})" in README
            assert len((folder / "README.md").read_text(encoding="utf-8").splitlines()) >= 10


@pytest.mark.engines
@pytest.mark.xdist_group("runtime")
def test_the_python_block_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1].replace('"out/nginx"', repr(str(tmp_path / "out")))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("http://")
    assert (tmp_path / "out/nginx.conf").is_file()


def test_lbgen_commands_that_the_docs_show_exist():
    from lbgen.cli.main import VERBS

    texts = [README, *(p.read_text(encoding="utf-8") for p in (ROOT / "examples").glob("*/README.md"))]
    shown = {m for text in texts for m in re.findall(r"`lbgen ([a-z]+)", text)}
    assert shown
    assert shown <= set(VERBS)


def test_commands_of_the_example_pages_run():
    for page in (ROOT / "examples").glob("*/README.md"):
        text = page.read_text(encoding="utf-8").replace("\n", " ")
        for line in re.findall(r"`lbgen ((?:route|render) [^`]*)`", text):
            words = re.findall(r"'[^']*'|\S+", line)
            words = [w.strip("'") for w in words]
            done = subprocess.run([sys.executable, "-m", "lbgen", *words], cwd=ROOT, capture_output=True, check=False)
            assert done.returncode == 0, (page, line, done.stderr)
