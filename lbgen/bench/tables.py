"""Benchmarks, price lists and drills as tables of text, for the terminal, Markdown and HTML."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.bench.faults.report import BUCKET_SECONDS, Drill, FaultReport

if TYPE_CHECKING:
    from lbgen.bench.cost import CostReport, EngineCosts
    from lbgen.bench.report import BenchReport, Row, Spread

DROWNS = "not measurable here"
_CLOSED = ("requests/s", "CPU us/request", "p50 ms", "p99 ms", "peak MiB", "errors", "not 2xx or 3xx")
_FAILED = "errors, not 2xx or 3xx"
_CONSTANT = ("p50 ms", "over direct", "p95 ms", "p99 ms", "p99.9 ms", "CPU us/request", _FAILED)


class Figure(Struct, frozen=True):
    """The median of the rounds, or another number; and the least and greatest, "" where there are none."""

    text: str
    extremes: str = ""


class FigureRow(Struct, frozen=True):
    """A subject; `detail`: its version, and whether it was behind."""

    subject: str
    detail: str
    figures: tuple[Figure, ...]


class FigureTable(Struct, frozen=True):
    """The rows of one shape of load."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[FigureRow, ...]


def tables(report: BenchReport) -> tuple[FigureTable, ...]:
    """One for each shape, in the order in which they were measured."""
    versions = {each.engine: each.version for each in report.engines}
    found = []
    for shape in dict.fromkeys(row.shape for row in report.rows):
        own = [row for row in report.rows if row.shape == shape]
        rows = tuple(
            FigureRow(
                row.subject,
                ", ".join(filter(None, (versions.get(row.subject, ""), "behind" if row.behind else ""))),
                _closed(row) if shape.rate is None else _constant(row),
            )
            for row in own
        )
        title = f"{shape.title}, by {own[0].generator.partition(' (')[0]}"
        found.append(FigureTable(title, _CLOSED if shape.rate is None else _CONSTANT, rows))
    return tuple(found)


def _closed(row: Row) -> tuple[Figure, ...]:
    return (
        _figure(row.requests_per_second, 0),
        _cpu(row),
        _figure(row.p50_ms, 1),
        _figure(row.p99_ms, 1),
        Figure("-" if row.peak_memory_mib is None else f"{row.peak_memory_mib:.0f}"),
        Figure(str(row.errors)),
        Figure(str(row.not_2xx_3xx)),
    )


def _constant(row: Row) -> tuple[Figure, ...]:
    return (
        _figure(row.p50_ms, 2),
        _figure(row.p50_over_direct_ms, 2),
        _figure(row.p95_ms, 1),
        _figure(row.p99_ms, 1),
        _figure(row.p999_ms, 1),
        _cpu(row),
        Figure(f"{row.errors}, {row.not_2xx_3xx}"),
    )


def _cpu(row: Row) -> Figure:
    return Figure(DROWNS) if row.kernel and row.cpu_us_per_request is None else _figure(row.cpu_us_per_request, 0)


def _figure(spread: Spread | None, digits: int) -> Figure:
    """`digits` after the point at most, and none from 100 on."""
    if spread is None:
        return Figure("-")
    low, high = (_number(edge, digits) for edge in (spread.low, spread.high))
    return Figure(_number(spread.median, digits), f"{low}-{high}")


def _number(value: float, digits: int) -> str:
    return f"{value:.{min(digits, 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2)}f}"


def to_markdown(report: BenchReport) -> str:
    """The tables, what was not measured, the notes, and the commands that sent the load."""
    load = report.load
    lines = [
        f"# {report.name}",
        "",
        f"GET `{load.target}`, route `{load.route}`, answers of {load.body_bytes} bytes; "
        f"{load.rounds} rounds of {load.seconds} s in turn: median (least-greatest).",
        "",
        f"{report.system}, {report.cores} cores, {report.cpu}.",
    ]
    for table in tables(report):
        lines += ["", f"## {table.title}", "", *markdown_lines(table)]
    if report.not_measured:
        lines += ["", "## Not measured", ""]
        lines += [f"- {each}" for each in report.not_measured]
    lines += ["", "## Notes", "", *(f"- {note}" for note in report.notes), "", "## Commands", "", "```sh"]
    lines += [*dict.fromkeys(row.command for row in report.rows), "```"]
    return "\n".join(lines) + "\n"


def markdown_lines(table: FigureTable, head: str = "engine") -> list[str]:
    """A table without its title; `head` is over its first column."""
    lines = [f"| {head} | {' | '.join(table.columns)} |", "|---" + "|---:" * len(table.columns) + "|"]
    for row in table.rows:
        cells = (f"{x.text} ({x.extremes})" if x.extremes else x.text for x in row.figures)
        lines.append(f"| {row.subject} {row.detail}".rstrip() + f" | {' | '.join(cells)} |")
    return lines


_COSTS = ("CPU us/request", "p50 ms")
NOTE = f"below each price where it is with a confidence of 99.9 %; {DROWNS}: that is on both sides of 0"


def cost_tables(report: CostReport) -> tuple[FigureTable, ...]:
    """One for each engine; the first row is the whole topology."""
    return tuple(_cost_table(each) for each in report.costs)


def cost_problems(report: CostReport) -> tuple[str, ...]:
    """The features without which an engine did not run, in sentences."""
    return tuple(
        f"{each.engine}: not measured without {feature}: {why}"
        for each in report.costs
        for feature, why in each.failed.items()
    )


def cost_to_markdown(report: CostReport) -> str:
    """The tables, and what was not measured."""
    lines = [
        f"# {report.name}: what each feature adds",
        "",
        f"GET `{report.target}`, route `{report.route}`; {report.rounds} rounds of {report.seconds} s: median "
        f"(least-greatest), prices: mean (interval). {report.cores} cores.",
    ]
    for table in cost_tables(report):
        lines += ["", f"## {table.title}", "", *markdown_lines(table, "feature")]
    problems = [*cost_problems(report), *map(str, report.not_measured)]
    if problems:
        lines += ["", "## Not measured", "", *(f"- {each}" for each in problems)]
    return "\n".join([*lines, "", NOTE, ""])


def _cost_table(costs: EngineCosts) -> FigureTable:
    title = f"{costs.engine} {costs.version}: CPU in closed loops, p50 at {costs.rate} requests/s"
    whole = FigureRow("the whole topology", "", (_exact(costs.cpu_us_per_request, 0), _exact(costs.p50_ms, 2)))
    rows = (
        FigureRow(
            x.feature,
            "",
            (
                _added(x.cpu_us_per_request, x.cpu_interval, 1, shown=x.cpu_measurable),
                _added(x.p50_ms, x.p50_interval, 2, shown=x.p50_measurable),
            ),
        )
        for x in costs.features
    )
    return FigureTable(title, _COSTS, (whole, *rows))


def _added(spread: Spread, interval: tuple[float, float], digits: int, *, shown: bool) -> Figure:
    low, high = interval
    figure = f"{statistics.mean(spread.rounds):+.{digits}f}" if shown else DROWNS
    return Figure(figure, f"{low:+.{digits}f} to {high:+.{digits}f}")


def _exact(spread: Spread, digits: int) -> Figure:
    return Figure(f"{spread.median:.{digits}f}", f"{spread.low:.{digits}f}-{spread.high:.{digits}f}")


_FAULTS = ("failed", "may fail", "p99 ms before, in it, after", "slowest ms", "may be", "answers/s", "envelope")
_BLOCKS = "▁▂▃▄▅▆▇█"
ABOUT = f"answers/s: good answers over the timeline, one block for {BUCKET_SECONDS:g} s, full at the rate of requests"


def fault_tables(report: FaultReport) -> tuple[FigureTable, ...]:
    """One for each fault, in the order in which they came."""
    versions = {each.engine: each.version for each in report.engines}
    return tuple(
        FigureTable(
            f"{fault}: {fault.sentence}",
            _FAULTS,
            tuple(FigureRow(x.engine, versions.get(x.engine, ""), _fault_figures(x, report.rate)) for x in drills),
        )
        for fault, drills in report.by_fault().items()
    )


def fault_notes(report: FaultReport) -> tuple[str, ...]:
    """What the topology allows, and what was seen beside the figures, in sentences."""
    found = [f"{fault}: {drills[0].why}" for fault, drills in report.by_fault().items()]
    found += [f"{x.fault}, {x.engine}: {x.detail}" for x in report.faults if x.detail]
    return (*found, ABOUT)


def fault_problems(report: FaultReport) -> tuple[str, ...]:
    """What engines did that the envelope does not allow, and why others were not measured."""
    found = [f"{x.fault}, {x.engine}: {each}" for x in report.faults for each in x.excesses]
    return (*found, *(f"{x.fault}, {x.engine}, failed: {x.reasons[0]['message']}" for x in report.faults if x.reasons))


def faults_to_markdown(report: FaultReport) -> str:
    """The tables, what left the envelope, what was not measured, and the notes."""
    lines = [
        f"# {report.name}: faults",
        "",
        f"GET `{report.target}`, route `{report.route}`, {report.rate} requests/s.",
        "",
        f"{report.system}, {report.cores} cores, {report.cpu}.",
    ]
    for table in fault_tables(report):
        lines += ["", f"## {table.title}", "", *markdown_lines(table)]
    problems = fault_problems(report)
    problems += tuple(map(str, report.not_measured))
    if problems:
        lines += ["", "## Outside the envelope, or not measured", "", *(f"- {each}" for each in problems)]
    lines += ["", "## Notes", "", *(f"- {note}" for note in fault_notes(report))]
    return "\n".join(lines) + "\n"


def _fault_figures(drill: Drill, rate: int) -> tuple[Figure, ...]:
    if drill.reasons:
        return (*(Figure("-") for _ in _FAULTS[:-1]), Figure("failed"))
    most = drill.slowest_may_be_ms
    return (
        Figure(str(drill.failed)),
        Figure(str(drill.may_fail)),
        Figure(", ".join("-" if x is None else f"{x:.0f}" for x in drill.p99_parts_ms)),
        Figure(f"{drill.slowest_ms:.0f}"),
        Figure("-" if most is None else f"{most:.0f}"),
        Figure("".join(_block(x.answered_per_second / rate) for x in drill.timeline)),
        Figure("outside" if drill.excesses else "within"),
    )


def _block(share: float) -> str:
    return _BLOCKS[min(len(_BLOCKS) - 1, max(0, round(share * (len(_BLOCKS) - 1))))]
