"""Files of an engine on disk: whole or not at all, stale ones gone, foreign ones kept."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lbgen.engines.api import RenderedFile
from lbgen.engines.rendered import Rendered


def files(**texts: str) -> Rendered:
    return Rendered("x", "1", tuple(RenderedFile(name.replace("__", "/"), text) for name, text in texts.items()))


def test_write_makes_folders_and_returns_paths(tmp_path):
    paths = files(a="1\n", maps__b="2\n").write(tmp_path / "out")
    assert [p.relative_to(tmp_path).as_posix() for p in paths] == ["out/a", "out/maps/b"]
    assert (tmp_path / "out/maps/b").read_text() == "2\n"


def test_a_second_write_removes_only_what_the_first_left(tmp_path):
    files(a="1", old="x").write(tmp_path)
    (tmp_path / "mine").write_text("keep")
    files(a="2").write(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith(".")) == ["a", "mine"]
    assert (tmp_path / "a").read_text() == "2"


def test_a_failure_leaves_the_old_files_whole(tmp_path):
    files(a="1").write(tmp_path)
    (tmp_path / "b").write_text("a file where a folder is wanted")
    with pytest.raises(OSError, match="b"):
        files(a="2", b__c="3").write(tmp_path)
    assert (tmp_path / "a").read_text() == "1"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".a")] == []


def test_it_is_a_mapping():
    rendered = files(a="1", b="2")
    assert dict(rendered) == {"a": "1", "b": "2"}
    assert len(rendered) == 2
    with pytest.raises(KeyError):
        rendered["c"]


def test_the_owner_gets_files_and_folders(tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr("os.chown", lambda path, uid, gid: given.__setitem__(Path(path).name, (uid, gid)))
    files(a="1", maps__b="2").write(tmp_path, (7, 8))
    assert given["maps"] == (7, 8)
    assert sorted(name.split(".")[1] for name in given if name != "maps") == ["", "a", "b"]
    assert set(given.values()) == {(7, 8)}


def test_a_file_that_is_the_same_is_left_alone(tmp_path: Path) -> None:
    """Engines watch files; what did not change must not look like a change, and cannot fail half-way."""
    files(a="1", b="2").write(tmp_path)
    before = {name: (tmp_path / name).stat().st_ino for name in ("a", "b")}
    assert files(a="1", b="3").write(tmp_path) == (tmp_path / "a", tmp_path / "b")
    after = {name: (tmp_path / name).stat().st_ino for name in ("a", "b")}
    assert (after["a"] == before["a"], after["b"] == before["b"]) == (True, False)
    (tmp_path / "a").chmod(0o600)
    files(a="1", b="3").write(tmp_path)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
    (tmp_path / "a").unlink()
    (tmp_path / "a").symlink_to(tmp_path / "b")
    files(a="3", b="3").write(tmp_path)
    assert not (tmp_path / "a").is_symlink()
