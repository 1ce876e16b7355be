"""The stored fingerprints are those of the engines that run here."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from lbgen.cli.main import group
from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.fingerprint import compare, measure, read_stored
from lbgen.runtime.local.spawn import User, accessible_copy
from tests.support import farm
from tests.support.engine_lists import newest_first
from tests.support.version_results import FINGERPRINT, recorded

if TYPE_CHECKING:
    from lbgen.engines.api import Binary

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("subject", newest_first(engines_on_host()))
def test_an_engine_answers_as_stored(subject) -> None:
    if subject.gap:
        pytest.skip(subject.gap)
    with recorded(FINGERPRINT, subject.engine, subject.version, "stored") as counts:
        found = measure(subject.engine, subject.version)
        expected = read_stored(subject.engine, subject.version)
        differences = [(each.probe, each.before, each.after) for each in compare(expected, found)]
        counts.update(probes=len(found.probes), differences=len(differences))
        assert not differences, f"{subject.label} against the stored profile"


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("haproxy", "2.6", "3.2", "framing/10: "),
        ("nginx", "1.22", "1.30", "header/3: "),
        ("traefik", "3.6.4", "3.6", "line/12: "),
    ],
)
def test_an_upgrade_that_changes_behaviour_is_named(name, old, new, expected, tmp_path, monkeypatch) -> None:
    """Both versions run, the newer one from the farm; skipped where that was not fetched."""
    for version in (new, old):
        if (name, version) in farm.SOURCES and farm.fetched(name, version) is None:
            pytest.skip(f"{name} {version} is not in the farm; make farm fetches it")
    profile = str(tmp_path / "new.json")
    monkeypatch.setenv("PATH", path_with(name, new))
    written = CliRunner().invoke(group, ["fingerprint", f"{name}@{new}", "-o", profile])
    assert written.exit_code == 0, written.output
    monkeypatch.setenv("PATH", path_with(name, old))
    result = CliRunner().invoke(group, ["fingerprint", f"{name}@{old}", "--compare", profile])
    assert result.exit_code == 4, result.output
    assert expected in result.output


def test_a_patched_executable_is_named(tmp_path, monkeypatch) -> None:
    """The patch is a line in the configuration, which the executable writes before it starts."""
    subject = engines_on_host(["nginx"])[0]
    if subject.binary is None:
        pytest.skip(subject.gap)
    line = "ignore_invalid_headers off;"
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # the engine's user cannot read every checkout
        Path(made).chmod(0o755)
        _patched(
            subject.version,
            accessible_copy(subject.binary, Path(made), User(65534, 65534)),
            line,
            tmp_path,
            monkeypatch,
        )


def _patched(version: str, binary: Binary, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patched = tmp_path / "nginx"
    edit = f'grep -q "{line}" nginx.conf || sed -i "s/^http {{/http {{ {line}/" nginx.conf'
    text = f'#!/bin/sh\n[ ! -f nginx.conf ] || {edit}\nexec "{binary.path}" "$@"\n'
    patched.write_text(text, encoding="utf-8")
    patched.chmod(0o755)
    monkeypatch.setenv("LBGEN_NGINX", str(patched))
    result = CliRunner().invoke(group, ["fingerprint", f"nginx@{version}"])
    assert result.exit_code == 4, result.output
    assert "received X.Dot: 2" in result.output
    assert "verdict of" not in result.output


def path_with(name: str, version: str) -> str:
    """PATH with that version first, where it is one of the farm's."""
    folder = farm.fetched(name, version)
    return os.pathsep.join([*([str(folder)] if folder else ()), os.environ["PATH"]])
