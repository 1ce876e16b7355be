"""The pages of a benchmark and of a price list; they need no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.bench.cost_tables import NOTE, cost_problems, cost_tables
from lbgen.bench.tables import tables
from lbgen.html.charts import LABEL, WIDTH, bar_charts, line_charts
from lbgen.html.page import render_template

if TYPE_CHECKING:
    from lbgen.bench.cost import CostReport
    from lbgen.bench.report import BenchReport


def bench_to_html(report: BenchReport) -> str:
    """The whole document: charts, tables, commands and configurations."""
    return render_template(
        "bench.html.j2",
        report=report,
        bars=bar_charts(report),
        lines=line_charts(report),
        tables=tables(report),
        width=WIDTH,
        label=LABEL,
    )


def cost_to_html(report: CostReport) -> str:
    """The whole document: a table for each engine."""
    tables_, problems = cost_tables(report), cost_problems(report)
    return render_template("cost.html.j2", report=report, tables=tables_, problems=problems, note=NOTE)
