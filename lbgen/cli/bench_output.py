"""What `lbgen bench` prints: a table for each shape of load, or what each feature costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from lbgen.bench.compare import Comparison
    from lbgen.bench.cost import CostReport
    from lbgen.bench.faults.report import FaultReport
    from lbgen.bench.report import BenchReport, UnmeasuredEngine
    from lbgen.bench.tables import FigureTable

# Heads of columns in two lines.
_BROKEN = {
    "CPU us/request": "CPU us/\nrequest",
    "peak MiB": "peak\nMiB",
    "not 2xx or 3xx": "not 2xx\nor 3xx",
    "over direct": "over\ndirect",
    "errors, not 2xx or 3xx": "errors,\nnot 2xx\nor 3xx",
    "p99.9 ms": "p99.9\nms",
    "may fail": "may\nfail",
    "p99 ms before, in it, after": "p99 ms\nbefore,\nin it, after",
    "slowest ms": "slowest\nms",
    "may be": "may\nbe",
}


def print_bench(out: Console, report: BenchReport) -> None:
    """A table for each shape of load, what was not measured, and notes."""
    from lbgen.bench.tables import tables

    load = report.load
    if report.rows:
        sent = ", ".join(f"{name}: {value}" for name, value in load.target.headers)
        out.print(
            f"{report.name}: GET {load.target.target} ({sent}), route {load.target.route}, {load.body_bytes} B",
            markup=False,
        )
        out.print(
            f"{load.rounds} rounds of {load.seconds} s: median, and below it the least and greatest", markup=False
        )
    for each in tables(report):
        out.print(_table(each))
    _print_unmeasured(out, report.not_measured)
    if not report.rows:
        out.print("no engine was measured", style="bold red")
    for note in report.notes if report.rows else ():
        out.print(note, markup=False, style="dim")


def print_cost(out: Console, report: CostReport) -> None:
    """A table for each engine."""
    from lbgen.bench.cost_tables import NOTE, cost_problems, cost_tables

    target = report.target
    out.print(f"{report.name}: what each feature adds to GET {target.target}, route {target.route}", markup=False)
    out.print(f"{report.rounds} rounds of {report.seconds} s", markup=False)
    for each in cost_tables(report):
        out.print(_table(each, "feature"))
    for problem in cost_problems(report):
        out.print(problem, markup=False)
    _print_unmeasured(out, report.not_measured)
    if not report.engines:
        out.print("no engine was measured", style="bold red")
    else:
        out.print(NOTE, markup=False, style="dim")


def print_faults(out: Console, report: FaultReport) -> None:
    """A table for each fault, what left the envelope, what was not measured, and notes."""
    from lbgen.bench.faults.tables import fault_notes, fault_problems, fault_tables

    target = report.target
    out.print(
        f"{report.name}: GET {target.target}, route {target.route}, {report.rate} requests/s while something fails",
        markup=False,
    )
    for each in fault_tables(report):
        out.print(_table(each))
    for problem in fault_problems(report):
        out.print(problem, markup=False, style="red")
    _print_unmeasured(out, report.not_measured)
    if not report.drills:
        out.print("no engine was measured", style="bold red")
    for note in fault_notes(report) if report.drills else ():
        out.print(note, markup=False, style="dim")


def print_comparison(out: Console, comparison: Comparison) -> None:
    """What changed, and what else differs."""
    for change in comparison.changes:
        out.print(str(change), markup=False, style="green" if change.better else "red")
    if not comparison.changes:
        out.print(f"no change beyond the noise in {comparison.compared} rows", markup=False)
    for note in comparison.notes:
        out.print(note, markup=False, style="dim")


def write_json(file: str, record: object) -> None:
    """Write a record to a file."""
    import json

    _write(file, json.dumps(record, indent=2) + "\n")


def write_reports(report: BenchReport | CostReport | FaultReport, html: str | None, markdown: str | None) -> None:
    """Write the page and the Markdown to the files that are given."""
    from lbgen.bench.cost import CostReport
    from lbgen.bench.cost_tables import cost_to_markdown
    from lbgen.bench.faults.report import FaultReport
    from lbgen.bench.faults.tables import faults_to_markdown
    from lbgen.bench.tables import to_markdown

    if markdown is not None:
        if isinstance(report, FaultReport):
            _write(markdown, faults_to_markdown(report))
        else:
            _write(markdown, cost_to_markdown(report) if isinstance(report, CostReport) else to_markdown(report))
    if html is not None:
        from lbgen.html.bench_page import bench_to_html, cost_to_html
        from lbgen.html.faults_page import faults_to_html

        if isinstance(report, FaultReport):
            _write(html, faults_to_html(report))
        else:
            _write(html, cost_to_html(report) if isinstance(report, CostReport) else bench_to_html(report))


def _write(file: str, text: str) -> None:
    Path(file).write_text(text, encoding="utf-8")
    click.echo(f"wrote {file}", err=True)


def _print_unmeasured(out: Console, not_measured: Sequence[UnmeasuredEngine]) -> None:
    for each in not_measured:
        more = f" (and {len(each.reasons) - 1} more)" if len(each.reasons) > 1 else ""
        out.print(f"not measured, {each.why}: {each.engine}: {each.reasons[0].message}{more}", markup=False)


def _empty_table(title: str, head: str, columns: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(head, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _table(figures: FigureTable, head: str = "engine") -> Table:
    from rich.markup import escape

    table = _empty_table(figures.title, head, [_BROKEN.get(name, name) for name in figures.columns])
    for row in figures.rows:
        cells = (f"{each.text}\n{each.extremes}".rstrip() for each in row.figures)
        table.add_row(escape(f"{row.subject}\n{row.detail}".replace(", ", "\n").rstrip()), *cells)
    return table
