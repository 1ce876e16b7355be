"""Which executable is taken for an engine."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lbgen.diagnostics import EngineError, UsageError
from lbgen.engines.api import Binary, BinaryHint
from lbgen.runtime.common import executables
from lbgen.runtime.local.spawn import User, accessible_copy, is_reachable


@dataclass(frozen=True)
class Target:
    name: str = "fake-lb"
    title: str = "Fake"
    versions: tuple[str, ...] = ("2.4", "2.2")
    binaries: tuple[BinaryHint, ...] = (BinaryHint("fakelb", version_argv=("-v",)),)


def program(folder: Path, version: str, name: str = "fakelb") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho fakelb/{version}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def bare_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}:{tmp_path / 'b'}:/usr/bin:/bin")
    monkeypatch.delenv("LBGEN_FAKE_LB", raising=False)


def test_the_newest_supported_version_wins(tmp_path):
    program(tmp_path / "a", "2.2.9")
    new = program(tmp_path / "b", "2.4.1")
    assert executables.find(Target()) == (Binary(new, "2.4.1"), "2.4")


def test_an_asked_version_is_found_or_what_there_is_is_named(tmp_path):
    old = program(tmp_path / "a", "2.2.9")
    assert executables.find(Target(), "2.2") == (Binary(old, "2.2.9"), "2.2")
    with pytest.raises(EngineError, match=r"LB402.*Fake 2\.4 was found \(there is 2\.2\.9 at .*LBGEN_FAKE_LB"):
        executables.find(Target(), "2.4")
    with pytest.raises(UsageError, match="LB305"):
        executables.find(Target(), "2.0")


@pytest.mark.parametrize(("there", "target"), [("2.3.0", "2.2"), ("2.9.0", "2.4"), ("2.10.1", "2.4")])
def test_a_version_between_gets_the_files_of_the_older_one(tmp_path, there, target):
    program(tmp_path / "a", there)
    assert executables.find(Target())[1] == target


def test_too_old_or_absent_is_said(tmp_path):
    with pytest.raises(EngineError, match="no executable of Fake was found;"):
        executables.find(Target())
    program(tmp_path / "a", "1.9.0")
    with pytest.raises(EngineError, match=r"there is 1\.9\.0"):
        executables.find(Target())


def test_one_that_does_not_tell_its_version_in_time_is_not_taken_for_absent(tmp_path, monkeypatch):
    program(tmp_path / "a", "2.4.1").write_text("#!/bin/sh\nexec sleep 20\n")
    monkeypatch.setattr(executables, "_ASK_SECONDS", 0.2)
    with pytest.raises(EngineError, match=r"LB403.*fakelb -v` does not end within"):
        executables.find(Target())


def test_one_for_which_no_process_can_be_started_is_not_taken_for_absent(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    program(tmp_path / "a", "2.4.1")
    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(EngineError, match=r"LB425: .*fakelb: Resource temporarily unavailable; this user may start no"):
        executables.find(Target())


def test_the_environment_overrides_and_must_be_right(tmp_path, monkeypatch):
    program(tmp_path / "a", "2.4.1")
    mine = program(tmp_path / "mine", "2.2.0", "other")
    monkeypatch.setenv("LBGEN_FAKE_LB", str(mine))
    assert executables.find(Target())[0].path == mine
    monkeypatch.setenv("LBGEN_FAKE_LB", str(tmp_path / "nothing"))
    with pytest.raises(EngineError, match="is not an executable of Fake"):
        executables.find(Target())


def test_real_programs_come_before_scripts(tmp_path):
    program(tmp_path / "a", "2.4.1")
    real = tmp_path / "b" / "fakelb"
    real.parent.mkdir()
    real.symlink_to(Path(sys.executable).resolve())
    hint = BinaryHint("fakelb", version_argv=("-c", "print('2.4.0')"))
    assert executables.candidates(Target(binaries=(hint,)))[0].path == real


def test_a_file_inside_a_package(tmp_path, monkeypatch):
    package = tmp_path / "site" / "fakewheel"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").touch()
    inside = program(package / "bin", "2.4.7")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    hint = BinaryHint("fakelb", "fakewheel", "bin/fakelb")
    assert executables.find(Target(binaries=(hint,)))[0].path == inside


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to have another user's view")
def test_a_program_in_a_closed_folder_is_copied(tmp_path):
    user = User(65534, 65534)
    closed = tmp_path / "closed"
    path = program(closed, "2.4.1")
    closed.chmod(0o700)
    assert not is_reachable(path, user)
    copy = accessible_copy(Binary(path, "2.4.1"), tmp_path / "run", user)
    assert copy.path.is_relative_to(tmp_path / "run")
    assert copy.path.read_bytes() == path.read_bytes()
    assert copy.path.stat().st_uid == 65534


def test_what_is_reachable_is_not_copied(tmp_path):
    path = program(tmp_path / "a", "2.4.1")
    binary = Binary(path, "2.4.1")
    assert accessible_copy(binary, tmp_path / "run", User()) is binary


def test_a_folder_on_the_path_that_is_closed_to_us(tmp_path, monkeypatch):
    """Folders of root's are on the PATH of a user that `su` made."""
    real = Path.is_file

    def closed(self: Path) -> bool:
        if self.parent == tmp_path / "a":
            raise PermissionError(13, "Permission denied", str(self))
        return real(self)

    monkeypatch.setattr(Path, "is_file", closed)
    wanted = program(tmp_path / "b", "2.4.1")
    found, _ = executables.find(Target())
    assert found.path == wanted
