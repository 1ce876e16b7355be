"""The figures as text, and as Markdown."""

from __future__ import annotations

from lbgen.bench.load import Load, LoadShape
from lbgen.bench.report import DIRECT, Sample, UnmeasuredEngine, Why, rows_of
from lbgen.bench.tables import Figure, tables, to_markdown
from tests.unit.bench.test_report import REASON, report, sender

CLOSED, RATE = LoadShape(50), LoadShape(50, 200)


def measured():
    samples = []
    for number in (1, 2, 3):
        samples.append((DIRECT, CLOSED, Sample(Load(1000, 900.0, 1.0, 2.0, 0, 0), None, None)))
        samples.append(("nginx", CLOSED, Sample(Load(1000, 100.0 * number, 1.0, 2.0, 0, 0), 0.05, 7.6)))
        samples.append((DIRECT, RATE, Sample(Load(1000, 200.0, 1.0, 2.0, 0, 0, 1.5, 3.0), None, None)))
        samples.append(("nginx", RATE, Sample(Load(1000, 150.0, 1.25, 2.0, 1, 0, 1.5, 3.0), 0.05, 7.6)))
    return report(rows_of(samples, sender), [UnmeasuredEngine.of("envoy", Why.DIFFERS, (REASON,))])


def test_a_table_for_each_shape_with_medians_and_extremes() -> None:
    closed, rate = tables(measured())
    assert closed.title == "50 connections, closed loop, by wrk 4"
    assert [(row.subject, row.detail) for row in closed.rows] == [(DIRECT, ""), ("nginx", "1.31.3")]
    assert closed.rows[1].figures[:2] == (Figure("200", "100-300"), Figure("50", "50-50"))
    assert closed.rows[0].figures[1] == Figure("-")
    assert rate.rows[1].detail == "1.31.3, behind"
    assert rate.rows[1].figures[1] == Figure("0.25", "0.25-0.25")
    assert all(len(row.figures) == len(table.columns) for table in (closed, rate) for row in table.rows)


def test_markdown_has_tables_commands_and_what_was_not_measured() -> None:
    text = to_markdown(measured())
    assert "| nginx 1.31.3 | 200 (100-300) | 50 (50-50) |" in text
    assert "- envoy, differs: differs" in text
    assert "wrk -c50\n" in text
    assert "Linux, 2 cores, a processor." in text
