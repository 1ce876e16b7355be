"""The farm of engines: where packages come from, and how programs are run by their own libraries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lbgen.engines.api import engine
from tests.support import farm


@pytest.mark.parametrize(
    "sources",
    [
        "deb http://deb.example/debian bookworm main\n",
        "deb [signed-by=/k.gpg] https://deb.example/debian/ bookworm main\n",
        "Types: deb\nURIs: http://deb.example/debian\nSuites: bookworm\n",
        "# deb http://old.example/debian x main\ndeb http://sec.example/debian-security x main\n"
        "deb http://deb.example/debian x main\n",
    ],
)
def test_the_mirror_is_that_of_the_host(sources: str) -> None:
    assert farm.mirror(sources).endswith("://deb.example/debian")


def test_without_a_mirror_there_is_a_reason() -> None:
    with pytest.raises(farm.FarmError, match="no Debian mirror"):
        farm.mirror("deb https://other.example/apt stable main\n")


def test_a_program_runs_by_its_own_libraries_under_the_name_of_the_script(tmp_path: Path) -> None:
    loader = tmp_path / "usr/lib" / f"{os.uname().machine}-linux-gnu" / "ld-linux-x.so.2"
    loader.parent.mkdir(parents=True)
    loader.write_text("loader", encoding="utf-8")
    script = farm.wrapper(tmp_path, tmp_path / "usr/sbin/haproxy", tmp_path / "bin/haproxy")
    assert script.startswith('#!/bin/sh\n[ "$*" != "-v" ] || {')
    assert script.splitlines()[-1].startswith(f'exec "{tmp_path}/loader/haproxy" ')
    assert (tmp_path / "loader/haproxy").read_text(encoding="utf-8") == "loader"
    assert f'--argv0 "{tmp_path}/bin/haproxy" "{tmp_path}/usr/sbin/haproxy" "$@"' in script


def test_what_is_not_known_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert farm.main(["haproxy=1.8"]) == 2
    assert "not known: haproxy=1.8; one of: haproxy=3.0" in capsys.readouterr().err


def test_what_cannot_be_fetched_is_named_and_counted(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(name: str, version: str) -> Path:
        raise farm.FarmError("no network")

    monkeypatch.setattr(farm, "fetch", fail)
    assert farm.main(["haproxy=3.2", "nginx=1.30"]) == 1
    told = capsys.readouterr().err
    assert "haproxy 3.2 could not be fetched: no network" in told
    assert "2 of 2 could not be fetched" in told


def test_every_version_is_of_an_engine() -> None:
    for name, _ in farm.SOURCES:
        assert engine(name).binaries, name
