"""The engines that are installed, by their entry points."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from lbgen import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed distributions."""
    (tmp_path / "site").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    installed.engine_entries.cache_clear()
    yield tmp_path / "site"
    installed.engine_entries.cache_clear()


def install(site: Path, name: str, points: str) -> None:
    """Install a distribution, before a new process starts."""
    info = site / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[lbgen.engines]\n{points}\n")
    later = site.stat().st_mtime_ns + 1
    os.utime(site, ns=(later, later))  # the clock of a file system may be coarse
    installed.engine_entries.cache_clear()


def test_an_installation_is_seen(site: Path) -> None:
    before = installed.engine_entries()
    assert "toy" not in before
    install(site, "toy", "toy = os.path:join [extra]")
    found = installed.engine_entries()
    assert found.keys() == {*before, "toy"}
    assert found["toy"].load() is os.path.join


def test_the_first_of_two_with_one_name_counts(site: Path) -> None:
    install(site, "other", "nginx = os:sep")
    assert installed.engine_entries()["nginx"].load() == os.sep
