"""Compiled templates are kept where nobody else can write, and are only ever a matter of time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from jinja2 import DictLoader, Environment
from msgspec import Struct

from lbgen import __version__
from lbgen.engines.text import Atom, environment, render
from lbgen.resources import cache

if TYPE_CHECKING:
    from pathlib import Path


class View(Struct, frozen=True):
    """What the template prints."""

    word: Atom


SOURCE = "word {{ v.word }};\n"
SHOWN = ("word a;\n", ("",))


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def compiled(monkeypatch):
    """The templates that Jinja has compiled."""
    found = []
    compile_ = Environment.compile

    def noted(self, source, name=None, *more, **named):
        found.append(name)
        return compile_(self, source, name, *more, **named)

    monkeypatch.setattr(Environment, "compile", noted)
    return found


def shown(source=SOURCE):
    return render(environment(DictLoader({"a.j2": source}), {}), "a.j2", View(Atom("a")))


def kept(base: Path) -> list[Path]:
    return list((base / "lbgen" / f"jinja-{__version__}").glob("*"))


def test_compiled_once_then_read(base, compiled):
    assert shown() == SHOWN
    assert compiled == ["a.j2"]
    assert len(kept(base)) == 1
    assert shown() == SHOWN
    assert compiled == ["a.j2"]


def test_a_broken_file_is_made_again(base, compiled):
    shown()
    (file,) = kept(base)
    file.write_bytes(b"no bytecode")
    assert shown() == SHOWN
    assert compiled == ["a.j2", "a.j2"]
    assert file.read_bytes() != b"no bytecode"


def test_the_folder_is_private(base):
    place = cache("x")
    assert place == base / "lbgen" / "x"
    assert place.stat().st_mode & 0o777 == 0o700


def test_no_folder_where_none_can_be_made(base, compiled):
    (base / "lbgen").write_text("a file in its place")
    assert cache("x") is None
    assert shown() == SHOWN
    assert compiled == ["a.j2"]


def test_a_disk_that_takes_nothing_costs_time_only(base, compiled, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jinja2.bccache.tempfile.NamedTemporaryFile", full)
    assert shown() == SHOWN
    assert shown() == SHOWN
    assert compiled == ["a.j2", "a.j2"]
    assert kept(base) == []


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_left_alone(base, compiled, mode):
    folder = base / "lbgen" / f"jinja-{__version__}"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    assert cache(folder.name) is None
    assert shown() == SHOWN
    assert kept(base) == []


def test_a_folder_of_another_user_is_left_alone(base, monkeypatch):
    assert cache("x") is not None
    other = os.geteuid() + 1
    monkeypatch.setattr("lbgen.resources.os.geteuid", lambda: other)
    assert cache("x") is None


def test_a_relative_place_counts_for_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert cache("x") == tmp_path / ".cache" / "lbgen" / "x"
    assert not (tmp_path / "here").exists()
