"""The plugin: what Go's own tools say, its size, and what it imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lbgen.engines.traefik.plugin import load_sources
from lbgen.resources import folder
from tests.support.go import find_go

SOURCES = folder("templates") / "traefik" / "plugin"
TESTS = Path(__file__).parent / "plugin"
GO = find_go(SOURCES)
MOST = 1_000  # lines


@pytest.mark.skipif(GO is None, reason="no Go here is new enough to vet and test the plugin by itself")
@pytest.mark.parametrize("command", ["vet", "test"])
def test_go_is_content(command: str, tmp_path: Path) -> None:
    for path in (*SOURCES.iterdir(), *TESTS.iterdir()):
        shutil.copy(path, tmp_path)
    offline = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        [str(GO), command, "./..."],
        cwd=tmp_path,
        env=os.environ | offline,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_small_and_uses_the_public_api_alone() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.glob("*.go")]
    assert sum(text.count("\n") for text in texts) <= MOST
    imported = {
        name for text in texts for block in re.findall(r"import \((.*?)\)", text, re.DOTALL) for name in block.split()
    }
    assert not imported & {'"unsafe"', '"reflect"', '"syscall"'}


def test_its_manifest_has_the_name_that_traefik_looks_for() -> None:
    names = {file.name.rpartition("/")[2] for file in load_sources()}
    assert {".traefik.yml", "go.mod", "plugin.go"} <= names
    assert not any(name.endswith("_test.go") for name in names)
