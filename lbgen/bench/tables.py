"""The figures of a benchmark as tables of text, for the terminal, Markdown and HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.bench.report import BenchReport, Row, Spread

DROWNS = "not measurable here"
_CLOSED = ("requests/s", "CPU us/request", "p50 ms", "p99 ms", "peak MiB", "errors", "not 2xx or 3xx")
_FAILED = "errors, not 2xx or 3xx"
_CONSTANT = ("p50 ms", "over direct", "p95 ms", "p99 ms", "p99.9 ms", "CPU us/request", _FAILED)


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of the rounds, or another number; and the least and greatest, "" where there are none."""

    text: str
    extremes: str = ""


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A subject; `detail`: its version, and whether it was behind."""

    subject: str
    detail: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class FigureTable:
    """The rows of one shape of load."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[FigureRow, ...]


def tables(report: BenchReport) -> tuple[FigureTable, ...]:
    """One for each shape, in the order in which they were measured."""
    versions = {each.engine: each.version for each in report.engines}
    found = []
    for shape, generator in report.load.generators.items():
        rows = tuple(
            FigureRow(
                row.subject,
                ", ".join(filter(None, (versions.get(row.subject, ""), "behind" if row.behind else ""))),
                _closed(row) if shape.rate is None else _constant(row, report.over_direct(row)),
            )
            for row in report.rows
            if row.shape == shape
        )
        title = f"{shape.title}, by {generator.partition(' (')[0]}"
        found.append(FigureTable(title, _CLOSED if shape.rate is None else _CONSTANT, rows))
    return tuple(found)


def _closed(row: Row) -> tuple[Figure, ...]:
    return (
        _figure(row.per_second, 0),
        _cpu(row),
        _figure(row.p50_ms, 1),
        _figure(row.p99_ms, 1),
        Figure("-" if row.peak_memory is None else f"{row.peak_memory:.0f}"),
        Figure(str(row.errors)),
        Figure(str(row.refused)),
    )


def _constant(row: Row, over_direct: Spread | None) -> tuple[Figure, ...]:
    return (
        _figure(row.p50_ms, 2),
        _figure(over_direct, 2),
        _figure(row.p95_ms, 1),
        _figure(row.p99_ms, 1),
        _figure(row.p999_ms, 1),
        _cpu(row),
        Figure(f"{row.errors}, {row.refused}"),
    )


def _cpu(row: Row) -> Figure:
    return Figure(DROWNS) if row.kernel and row.cpu_us is None else _figure(row.cpu_us, 0)


def _figure(spread: Spread | None, digits: int) -> Figure:
    """`digits` after the point at most, and none from 100 on."""
    if spread is None:
        return Figure("-")
    low, high = (_number(edge, digits) for edge in spread.extremes)
    return Figure(_number(spread.median, digits), f"{low}-{high}")


def _number(value: float, digits: int) -> str:
    return f"{value:.{min(digits, 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2)}f}"


def to_markdown(report: BenchReport) -> str:
    """The tables, what was not measured, the notes, and the commands that sent the load."""
    load = report.load
    lines = [
        f"# {report.name}",
        "",
        f"GET `{load.target.target}`, route `{load.target.route}`, answers of {load.body_bytes} bytes; "
        f"{load.rounds} rounds of {load.seconds} s in turn: median (least-greatest).",
        "",
        f"{report.machine.system}, {report.machine.cores} cores, {report.machine.cpu}.",
    ]
    for table in tables(report):
        lines += ["", f"## {table.title}", "", *markdown_lines(table)]
    if report.not_measured:
        lines += ["", "## Not measured", ""]
        lines += [f"- {each.engine}, {each.why}: {each.reasons[0].message}" for each in report.not_measured]
    lines += ["", "## Notes", "", *(f"- {note}" for note in report.notes), "", "## Commands", "", "```sh"]
    lines += [*load.commands.values(), "```"]
    return "\n".join(lines) + "\n"


def markdown_lines(table: FigureTable, head: str = "engine") -> list[str]:
    """A table without its title; `head` is over its first column."""
    lines = [f"| {head} | {' | '.join(table.columns)} |", "|---" + "|---:" * len(table.columns) + "|"]
    for row in table.rows:
        cells = (f"{x.text} ({x.extremes})" if x.extremes else x.text for x in row.figures)
        lines.append(f"| {row.subject} {row.detail}".rstrip() + f" | {' | '.join(cells)} |")
    return lines
