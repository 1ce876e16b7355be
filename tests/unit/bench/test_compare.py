"""What changed between two benchmarks, beyond the noise."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from lbgen.bench.compare import compare, read_report
from lbgen.bench.load import Load, LoadShape
from lbgen.bench.report import DIRECT, Sample, Spread, rows_of
from lbgen.diagnostics import UsageError
from tests.unit.bench.test_report import report, sender

CLOSED, RATE = LoadShape(50), LoadShape(50, 200)


def record(rps: float = 1000.0, micros: float = 50.0, p99: float = 4.0, errors: int = 0, direct: float = 5000.0):
    """A benchmark of nginx whose rounds are 2 % apart."""
    samples = []
    for part in (0.98, 1.0, 1.02):
        samples.append((DIRECT, CLOSED, Sample(Load(1000, direct * part, 1.0, 2.0, 0, 0), None, None)))
        samples.append(("nginx", CLOSED, Sample(Load(1000, rps * part, 1.0, 2.0, errors, 0), micros * part / 1e3, 9.0)))
        for name, cpu in ((DIRECT, None), ("nginx", 0.05)):
            load = Load(1000, 200.0, 1.0, p99 * part if cpu else 1.0, 0, 0, 1.5, p99 * 2)
            samples.append((name, RATE, Sample(load, cpu, cpu and 9.0)))
    return report(rows_of(samples, sender))


def changes(before, after) -> list[tuple[str, str, bool]]:
    return [(x.subject, x.figure, x.better) for x in compare(before, after).changes]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"rps": 950.0, "micros": 54.0}, []),  # less than 10 %
        ({"rps": 700.0}, [("nginx", "requests/s", False)]),
        ({"micros": 30.0}, [("nginx", "CPU us/request", True)]),
        ({"p99": 9.0}, [("nginx", "p99 ms", False)]),
        ({"errors": 3}, [("nginx", "requests without a good answer", False)]),
        ({"direct": 2500.0}, []),
    ],
)
def test_what_is_beyond_the_noise_is_a_change(options: dict[str, float], expected: list[tuple[str, str, bool]]) -> None:
    assert changes(record(), record(**options)) == expected


def test_rounds_that_overlap_are_noise() -> None:
    before, after = record(), record(rps=1500.0)
    row = next(row for row in after.rows if row.subject == "nginx")
    rates = Spread.of((1001.0, *row.requests_per_second.rounds[1:]))
    rows = tuple(replace(x, requests_per_second=rates) if x is row else x for x in after.rows)
    assert changes(before, replace(after, rows=rows)) == []


def test_what_else_differs_is_said() -> None:
    before, after = record(), record(direct=2500.0)
    engines = (replace(after.engines[0], version="1.32.0"),)
    after = replace(after, engines=engines, rows=tuple(row for row in after.rows if row.rate is None))
    notes = "\n".join(compare(before, after).notes)
    assert "the version of nginx differs: 1.31.3 and 1.32.0" in notes
    assert "the machine's speed may differ: direct" in notes
    assert "only in one of them: nginx, 50 connections, 200 requests/s" in notes


def test_benchmarks_without_a_common_row_are_refused() -> None:
    after = replace(record(), rows=())
    with pytest.raises(UsageError, match="no row in common") as caught:
        compare(record(), after)
    assert caught.value.diagnostics[0].code == "LB431"


def test_files_that_are_no_benchmark_are_refused(tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    good.write_bytes(msgspec.json.encode(record()))
    assert read_report(good) == record()
    bad = tmp_path / "bad.json"
    bad.write_bytes(msgspec.json.encode({**msgspec.to_builtins(record()), "rows": "none"}))
    wrong = "Expected `array`, got `str` - at `[$].rows`"
    for file, message in ((bad, wrong), (tmp_path / "missing.json", "cannot be read: No such file")):
        with pytest.raises(UsageError, match=message):
            read_report(file)
