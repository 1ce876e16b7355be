"""What `lbgen bench` prints: a table for each shape of load, or what each feature costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lbgen.bench.cost import CostReport
from lbgen.bench.faults.report import FaultReport
from lbgen.bench.report import BenchReport
from lbgen.bench.tables import (
    NOTE,
    FigureTable,
    cost_problems,
    cost_tables,
    cost_to_markdown,
    fault_notes,
    fault_problems,
    fault_tables,
    faults_to_markdown,
    tables,
    to_markdown,
)
from lbgen.html.bench_page import bench_to_html, cost_to_html, faults_to_html

if TYPE_CHECKING:
    from lbgen.bench.compare import Comparison

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


Report = BenchReport | CostReport | FaultReport


def print_report(out: Console, report: Report) -> None:
    """A table for each shape of load, engine or fault; what was not measured, and notes."""
    if isinstance(report, BenchReport):
        load = report.load
        sent = ", ".join(f"{name}: {value}" for name, value in load.headers)
        heads = [
            f"{report.name}: GET {load.target} ({sent}), route {load.route}, {load.body_bytes} B",
            f"{load.rounds} rounds of {load.seconds} s: median, and below it the least and greatest",
        ]
        problems: tuple[str, ...] = ()
        _print_parts(out, report, heads if report.rows else [], tables(report), problems, report.notes)
    elif isinstance(report, CostReport):
        heads = [
            f"{report.name}: what each feature adds to GET {report.target}, route {report.route}",
            f"{report.rounds} rounds of {report.seconds} s",
        ]
        _print_parts(out, report, heads, cost_tables(report), cost_problems(report), (NOTE,))
    else:
        what = f"{report.rate} requests/s while something fails"
        heads = [f"{report.name}: GET {report.target}, route {report.route}, {what}"]
        _print_parts(out, report, heads, fault_tables(report), fault_problems(report), fault_notes(report))


def _print_parts(
    out: Console,
    report: Report,
    heads: Sequence[str],
    shown: Sequence[FigureTable],
    problems: Sequence[str],
    notes: Sequence[str],
) -> None:
    for head in heads:
        out.print(head, markup=False)
    for each in shown:
        out.print(_table(each, "feature" if isinstance(report, CostReport) else "engine"))
    for problem in problems:
        out.print(problem, markup=False, style="red" if isinstance(report, FaultReport) else "")
    for left in report.not_measured:
        more = f" (and {len(left.reasons) - 1} more)" if len(left.reasons) > 1 else ""
        out.print(f"not measured, {left.why}: {left.engine}: {left.reasons[0]['message']}{more}", markup=False)
    if not shown:
        out.print("no engine was measured", style="bold red")
    for note in notes if shown else ():
        out.print(note, markup=False, style="dim")


def print_comparison(out: Console, comparison: Comparison) -> None:
    """What changed, and what else differs."""
    for change in comparison.changes:
        out.print(str(change), markup=False, style="green" if change.better else "red")
    if not comparison.changes:
        out.print(f"no change beyond the noise in {comparison.compared_rows} rows", markup=False)
    for note in comparison.notes:
        out.print(note, markup=False, style="dim")


def write_json(file: str, record: object) -> None:
    """Write a report to a file."""
    _write(file, json.dumps(msgspec.to_builtins(record), indent=2) + "\n")


def write_reports(report: Report, html: str | None, markdown: str | None) -> None:
    """Write the page and the Markdown to the files that are given."""
    if isinstance(report, FaultReport):
        page, text = faults_to_html(report), faults_to_markdown(report)
    elif isinstance(report, CostReport):
        page, text = cost_to_html(report), cost_to_markdown(report)
    else:
        page, text = bench_to_html(report), to_markdown(report)
    if markdown is not None:
        _write(markdown, text)
    if html is not None:
        _write(html, page)


def _write(file: str, text: str) -> None:
    Path(file).write_text(text, encoding="utf-8")
    click.echo(f"wrote {file}", err=True)


def _table(figures: FigureTable, head: str) -> Table:
    table = Table(title=figures.title, title_justify="left", box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(head, no_wrap=True)
    for name in figures.columns:
        table.add_column(_BROKEN.get(name, name), justify="right", no_wrap=True)
    for row in figures.rows:
        cells = (f"{each.text}\n{each.extremes}".rstrip() for each in row.figures)
        table.add_row(escape(f"{row.subject}\n{row.detail}".replace(", ", "\n").rstrip()), *cells)
    return table
