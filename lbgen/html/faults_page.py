"""The page of `lbgen bench --faults`: timelines, tables and what left the envelope; it needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.bench.faults.fault import SECONDS
from lbgen.bench.faults.tables import fault_notes, fault_problems, fault_tables
from lbgen.bench.faults.timeline import BUCKET_SECONDS, allowed_over_time, buckets
from lbgen.html.charts import timeline_chart
from lbgen.html.page import render_template

if TYPE_CHECKING:
    from lbgen.bench.faults.fault import Fault
    from lbgen.bench.faults.report import FaultReport
    from lbgen.html.charts import LineChart


def faults_to_html(report: FaultReport) -> str:
    """The whole document."""
    whys = {each.fault: each.envelope.why for each in report.drills}
    faults = [
        (table, whys[fault], _charts(report, fault))
        for table, fault in zip(fault_tables(report), report.faults, strict=True)
    ]
    problems, notes = fault_problems(report), fault_notes(report)
    return render_template("faults.html.j2", report=report, faults=faults, problems=problems, notes=notes)


def _charts(report: FaultReport, fault: Fault) -> tuple[LineChart, ...]:
    """Good answers per second, failed requests per second, and p99; nothing where every engine failed."""
    names = [each.engine for each in report.engines]
    drills = [each for each in report.drills if each.fault is fault and each.outcomes]
    if not drills:
        return ()
    widest = max(drills, key=lambda each: each.window.end)
    band = (widest.window.begin, min(widest.window.end, SECONDS))
    timelines = [(each.engine, names.index(each.engine), buckets(each.outcomes)) for each in drills]
    rates = [(name, n, [(x.second + BUCKET_SECONDS / 2, x.answered) for x in line]) for name, n, line in timelines]
    failed = [
        (name, n, [(x.second + BUCKET_SECONDS / 2, x.failed / BUCKET_SECONDS) for x in line])
        for name, n, line in timelines
    ]
    p99 = [
        (name, n, [(x.second + BUCKET_SECONDS / 2, x.p99_ms) for x in line if x.p99_ms is not None])
        for name, n, line in timelines
    ]
    most = widest.envelope.slowest
    slowest = [(0.0, most * 1000), (SECONDS, most * 1000)] if most else []
    may_fail = allowed_over_time(widest.window, widest.envelope, report.rate)
    return (
        timeline_chart(f"{fault}: good answers/s", rates, SECONDS, band),
        timeline_chart(f"{fault}: failed requests/s", failed, SECONDS, band, may_fail),
        timeline_chart(f"{fault}: p99 ms", p99, SECONDS, band, slowest),
    )
