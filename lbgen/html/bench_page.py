"""The page of a benchmark: charts, tables, commands and configurations; it needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.bench.tables import tables
from lbgen.html.charts import LABEL, WIDTH, bar_charts, line_charts
from lbgen.html.page import render_template

if TYPE_CHECKING:
    from lbgen.bench.report import BenchReport


def bench_to_html(report: BenchReport) -> str:
    """The whole document."""
    return render_template(
        "bench.html.j2",
        report=report,
        bars=bar_charts(report),
        lines=line_charts(report),
        tables=tables(report),
        width=WIDTH,
        label=LABEL,
    )
