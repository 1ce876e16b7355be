"""Fingerprints: what is compared, what is stored, and what a difference looks like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import asdict, replace

import lbgen
from lbgen.cli.main import group
from lbgen.conformance.fingerprint import Fingerprint, compare, probes, read, read_stored, sent, stored
from lbgen.engines.api import NeedsKernel, engine, is_known, local_engines

ONE = Fingerprint("nginx", "1.31.3", {"host": ("HTTP/1.1 400 Bad Request, then closed", "server: a"), "path": ("x",)})


def test_equal_fingerprints_differ_in_nothing() -> None:
    assert compare(ONE, replace(ONE)) == ()


def test_a_planted_change_is_named_with_its_lines_alone() -> None:
    changed = replace(ONE, probes={**ONE.probes, "host": ("HTTP/1.1 400 Bad Request, then closed", "server: b")})
    (found,) = compare(ONE, changed)
    assert (found.probe, found.before, found.after) == ("host", ("server: a",), ("server: b",))


def test_a_probe_that_one_lacks_is_a_difference() -> None:
    (found,) = compare(ONE, replace(ONE, probes={"host": ONE.probes["host"]}))
    assert (found.probe, found.before, found.after) == ("path", ("x",), ())


def test_verdicts_that_an_upgrade_changes_are_named() -> None:
    found = {each.probe for each in compare(replace(ONE, version="1.22.1"), ONE)}
    assert "verdict of match.headers" in found


def test_probes_are_named_once_and_their_bytes_can_be_shown() -> None:
    names = [case.id for case in probes().cases]
    assert len(names) == len(set(names))
    assert sent("path").startswith(b"GET //secret/x HTTP/1.1\r\n")
    assert sent("verdict of match.headers") == b""


def test_a_file_that_is_no_fingerprint_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(lbgen.UsageError, match=r"LB416: .*x\.json is not a fingerprint"):
        read(file)


def test_a_fingerprint_survives_its_file(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps(asdict(ONE)), encoding="utf-8")
    assert read(file) == ONE


@pytest.mark.parametrize("name", stored())
def test_stored_fingerprints_are_of_supported_versions_and_of_all_probes(name: str) -> None:
    engine_name, _, version = name.rpartition("-")
    found = read_stored(engine_name, version)
    assert found.engine == engine_name
    assert found.version.startswith(f"{version}.")
    assert is_known(engine(engine_name), found.version)
    assert set(found.probes) <= {case.id for case in probes().cases}


def test_every_supported_version_has_a_stored_fingerprint() -> None:
    able = [x for x in local_engines().values() if not isinstance(x, NeedsKernel)]  # measured where the kernel can
    every = {f"{x.name}-{version}" for x in able for version in x.versions}
    assert set(stored()) == every


def test_the_command_shows_what_an_upgrade_changes_and_ends_with_4(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(group, ["fingerprint", "nginx@1.22", "--stored", "--compare", "1.31"])
    assert result.exit_code == 4
    assert "verdict of match.headers" in result.output
    monkeypatch.setattr("lbgen.cli.diff.measure", lambda name, version: read_stored(name, version or None))
    same = CliRunner().invoke(group, ["fingerprint", "nginx@1.31"])
    assert (same.exit_code, "0 differences" in same.output) == (0, True)
