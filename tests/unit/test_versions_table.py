"""The table of `make test-versions`: what it counts, and what it names as failed or not tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import farm, versions
from tests.support.version_results import CONFORMANCE, DIFFERENTIAL, FINGERPRINT, VERIFY, Outcome, read, recorded


def outcome(kind: str, test: str, *, failed: bool = False, version: str = "3.2", **counts: int) -> Outcome:
    return Outcome(kind, "haproxy", version, test, counts, 30.0, 6.0, failed)


def test_a_row_counts_cases_requests_and_examples() -> None:
    found = [
        outcome(CONFORMANCE, "a", **{"pass": 3, "habit": 1, "refused": 1}),
        outcome(CONFORMANCE, "b", **{"pass": 2, "approximate": 1}),
        outcome(DIFFERENTIAL, "random", requests=2000),
        outcome(FINGERPRINT, "stored"),
        outcome(VERIFY, "shop"),
        outcome(VERIFY, "postgres"),
    ]
    row = ("haproxy", "3.2", "5", "0", "1", "1", "1", "0", "2000", "as stored", "2 of 2", "3.0", "0.6")
    assert versions.rows(found) == [row]


def test_what_failed_is_named_and_counted() -> None:
    found = [
        outcome(CONFORMANCE, "a", failed=True, **{"pass": 3, "fail": 2}),
        outcome(CONFORMANCE, "broken before it counted", failed=True),
        outcome(VERIFY, "shop", failed=True),
        outcome(VERIFY, "postgres"),
        outcome(VERIFY, "shop", version="2.6"),
    ]
    old, new = versions.rows(found)
    assert (old[1], old[3], old[10]) == ("2.6", "0", "1 of 1")
    assert (new[1], new[3], new[8], new[10]) == ("3.2", "3", "-", "FAIL: shop")


def test_versions_without_a_test_are_named() -> None:
    gone = versions.absent([outcome(VERIFY, "shop")])
    assert "haproxy 2.6" in gone
    assert "haproxy 3.2" not in gone


def test_what_a_test_counts_is_kept_and_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LBGEN_RESULTS", str(tmp_path))
    with pytest.raises(ZeroDivisionError), recorded(VERIFY, "haproxy", "3.2", "shop") as counts:
        counts["pass"] = 1 // len(counts)
    (first,) = read(tmp_path)
    assert (first.failed, first.counts) == (True, {})
    with recorded(VERIFY, "haproxy", "3.2", "shop"):
        pass
    (second,) = read(tmp_path)
    assert not second.failed


def test_what_cannot_be_fetched_has_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fetch(name: str, version: str) -> Path:
        if name == "nginx":
            raise farm.FarmError("no network")
        return tmp_path / "bin" / name

    monkeypatch.setattr(farm, "fetch", fetch)
    found = versions.fetch([("haproxy", "3.2"), ("nginx", "1.30")])
    assert found == ([str(tmp_path / "bin")], {("nginx", "1.30"): "no network"})
