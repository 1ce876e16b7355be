"""Medians, extremes, exit codes and notes of a benchmark."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lbgen.bench.gate import refused_engines
from lbgen.bench.load import Load, LoadShape
from lbgen.bench.report import (
    DIRECT,
    BenchReport,
    LoadOptions,
    MeasuredEngine,
    Sample,
    Spread,
    UnmeasuredEngine,
    Why,
    notes_of,
    rows_of,
)
from lbgen.bench.tables import tables
from lbgen.bench.target import LoadTarget
from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.verify.report import Report, UnverifiedEngine
from lbgen.conformance.verify.time_scaling import Scale
from lbgen.diagnostics import Diagnostic

TARGET = LoadTarget("web", "app", "/", (("Host", "a.example"),), "pools.app.endpoints[0]")
FIFTY, MANY = LoadShape(50), LoadShape(250)
REASON = Diagnostic("LB431", "differs")


def sample(per_second: float, cpu: float | None = None, memory: float | None = None, errors: int = 0) -> Sample:
    return Sample(Load(1000, per_second, 1.0, 5.0, errors, 2), cpu, memory)


def sender(shape: LoadShape) -> tuple[str, str]:
    return "wrk 4 (x)", f"wrk -c{shape.connections}"


def report(rows=(), not_measured=()) -> BenchReport:
    load = LoadOptions.of(TARGET, 5120, 1, 3, {})
    return BenchReport(
        name="shop",
        lbgen="0.1.0",
        system="Linux",
        cores=2,
        cpu="a processor",
        load=load,
        engines=(MeasuredEngine("nginx", "1.31.3", 9),),
        not_measured=tuple(not_measured),
        rows=tuple(rows),
        notes=notes_of(rows, load, 2),
        configurations={"nginx": {"nginx.conf": "worker_processes auto;\n"}},
    )


def test_what_the_kernel_adds_is_beyond_the_interrupts_of_direct() -> None:
    def rounds(*softirqs: tuple[float, float]):
        for base, softirq in softirqs:  # of 1,000 requests each
            yield DIRECT, FIFTY, replace(sample(100.0), softirq=base)
            yield "kernel", FIFTY, replace(sample(100.0), softirq=softirq)

    direct, row = rows_of(list(rounds((0.010, 0.015), (0.020, 0.029))), sender)
    assert (direct.kernel, direct.cpu_us_per_request) == (False, None)
    assert row.cpu_us_per_request is not None
    assert row.cpu_us_per_request.rounds == pytest.approx((5.0, 9.0))
    _, drowned = rows_of(list(rounds((0.010, 0.015), (0.020, 0.019))), sender)
    assert (drowned.kernel, drowned.cpu_us_per_request) == (True, None)
    assert tables(report((drowned,)))[0].rows[0].figures[1].text == "not measurable here"


def test_median_and_extremes() -> None:
    found = Spread.of((3.0, 100.0, 1.0, 2.0, 4.0))
    assert (found.low, found.median, found.high) == (1.0, 3.0, 100.0)


def test_rounds_become_rows_by_shape_in_the_order_of_subjects() -> None:
    rounds = [(s, c, sample(100.0)) for _ in range(2) for c in (FIFTY, MANY) for s in (DIRECT, "nginx")]
    rows = rows_of(rounds, sender)
    assert [(row.subject, row.shape) for row in rows] == [
        (DIRECT, FIFTY),
        ("nginx", FIFTY),
        (DIRECT, MANY),
        ("nginx", MANY),
    ]
    assert all(len(row.p50_ms.rounds) == 2 for row in rows)


def test_cpu_is_per_request_and_memory_the_peak() -> None:
    (row,) = rows_of(
        [("nginx", FIFTY, sample(9.0, 0.05, 10.0, 1)), ("nginx", FIFTY, sample(9.0, 0.07, 12.0, 2))], sender
    )
    assert row.cpu_us_per_request is not None
    assert row.cpu_us_per_request.rounds == pytest.approx((50.0, 70.0))
    assert (row.peak_memory_mib, row.errors, row.not_2xx_3xx) == (12.0, 3, 4)


def test_the_endpoint_has_no_cost() -> None:
    (row,) = rows_of([(DIRECT, FIFTY, sample(9.0))], sender)
    assert (row.cpu_us_per_request, row.peak_memory_mib) == (None, None)


@pytest.mark.parametrize(
    ("whys", "code"),
    [((), 0), ((Why.LEFT_OUT,), 0), ((Why.LEFT_OUT, Why.FAILED), 3), ((Why.FAILED, Why.DIFFERS), 4)],
)
def test_exit_codes(whys: tuple[Why, ...], code: int) -> None:
    assert report(not_measured=[UnmeasuredEngine.of("x", why, (REASON,)) for why in whys]).exit_code == code


@pytest.mark.parametrize(("rate", "noted"), [(100.0, False), (900.0, True)])
def test_a_rate_near_the_direct_one_is_noted(rate: float, noted: bool) -> None:
    rows = rows_of([(DIRECT, FIFTY, sample(1000.0)), ("nginx", FIFTY, sample(rate, 1.0, 1.0))], sender)
    notes = report(rows).notes
    assert any("90%" in note for note in notes) is noted
    assert "closed loop" in notes[0]


def at_rate(answered: float, p50: float, busy: float = 0.1) -> Sample:
    return Sample(Load(1000, answered, p50, 5.0, 0, 0, 3.0, 9.0, busy), 0.1, 1.0)


def test_latency_over_direct_is_that_of_the_same_round() -> None:
    shape = LoadShape(50, 100)
    rounds = [(DIRECT, 1.0), ("nginx", 1.5), (DIRECT, 11.0), ("nginx", 11.5)]
    rows = rows_of([(subject, shape, at_rate(100.0, p50)) for subject, p50 in rounds], sender)
    assert rows[0].p50_over_direct_ms is None
    assert rows[1].p50_over_direct_ms == Spread.of((0.5, 0.5))
    assert (rows[1].loop, rows[1].rate, rows[1].p999_ms) == ("constant rate", 100, Spread.of((9.0, 9.0)))


@pytest.mark.parametrize(
    ("sample", "noted"),
    [(at_rate(99.0, 1.0), ""), (at_rate(90.0, 1.0), "does not keep up"), (at_rate(99.0, 1.0, 0.9), "uses 90%")],
)
def test_what_limits_a_constant_rate_is_noted(sample: Sample, noted: str) -> None:
    shape = LoadShape(50, 100)
    rows = rows_of([(DIRECT, shape, at_rate(100.0, 1.0)), ("nginx", shape, sample)], sender)
    assert any("nginx" in note and noted in note for note in report(rows).notes) is bool(noted)
    assert rows[1].behind is (noted == "does not keep up")


def verification(results: tuple[Result, ...], left: tuple[UnverifiedEngine, ...] = ()) -> Report:
    return Report("shop", results, left, (), Scale(1.0, ()), "", 1.0)


def result(subject: str, state: CaseState) -> Result:
    return Result(subject, "topology", "2.rule/1", "2.rule", state, "status 200, expected 404")


def test_an_engine_that_differs_is_refused_with_the_difference() -> None:
    (refused,) = refused_engines(
        verification((result("nginx 1.31.3", CaseState.PASS), result("haproxy 2.8.25", CaseState.FAIL)))
    )
    assert (refused.engine, refused.why) == ("haproxy", Why.DIFFERS)
    assert "expected 404" in refused.reasons[0]["message"]


def test_engines_that_differ_from_each_other_are_both_refused() -> None:
    refused = refused_engines(verification((result("nginx, envoy", CaseState.FAIL),)))
    assert [each.engine for each in refused] == ["nginx", "envoy"]


def test_an_engine_that_did_not_run_is_refused_and_one_that_is_left_out_is_not() -> None:
    left = (UnverifiedEngine("traefik", (REASON,), broken=True), UnverifiedEngine("nftables", (REASON,)))
    assert [(each.engine, each.why) for each in refused_engines(verification((), left))] == [("traefik", Why.FAILED)]
