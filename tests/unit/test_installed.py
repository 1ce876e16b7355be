"""The engines that are installed are read again when a folder of `sys.path` changes."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

from lbgen import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed distributions, and a cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "site").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    installed.engine_entries.cache_clear()
    yield tmp_path / "site"
    installed.engine_entries.cache_clear()


def install(site: Path, name: str, points: str) -> None:
    info = site / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[lbgen.engines]\n{points}\n")
    later = site.stat().st_mtime_ns + 1
    os.utime(site, ns=(later, later))  # the clock of a file system may be coarse


def entries() -> dict[str, installed.EngineEntry]:
    """What a new process finds."""
    installed.engine_entries.cache_clear()
    return installed.engine_entries()


def test_an_installation_is_seen(site: Path) -> None:
    before = entries()
    assert "toy" not in before
    install(site, "toy", "toy = os.path:join [extra]")
    assert entries() == {**before, "toy": installed.EngineEntry("os.path:join")}
    assert entries()["toy"].load() is os.path.join


def test_the_first_of_two_with_one_name_counts(site: Path) -> None:
    install(site, "other", "nginx = os:sep")
    assert entries()["nginx"].load() == os.sep


def test_it_finds_what_the_library_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {entry.name: entry.load() for entry in entry_points(group=installed.GROUP)}
    assert {name: entry.load() for name, entry in entries().items()} == found
    monkeypatch.setattr(installed, "_make", lambda: pytest.fail("read again"))
    assert {name: entry.load() for name, entry in entries().items()} == found


def test_a_folder_that_is_not_there_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/nowhere", "", *sys.path])
    assert "nginx" in entries()


def test_a_folder_without_distributions_does_not_count(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "toy", "toy = os.path:join")
    before = entries()
    monkeypatch.setattr(installed, "_make", lambda: pytest.fail("they were read again"))
    for name in ("work", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shop.yaml").touch()
        monkeypatch.setattr(sys, "path", [str(tmp_path / name), *sys.path])
        assert entries() == before


def test_a_folder_counts_once_it_has_distributions(site: Path) -> None:
    assert "toy" not in entries()
    install(site, "toy", "toy = os.path:join")
    assert "toy" in entries()
    (site / "toy-1.dist-info" / "entry_points.txt").unlink()
    (site / "toy-1.dist-info" / "METADATA").unlink()
    (site / "toy-1.dist-info").rmdir()
    assert "toy" not in entries()
