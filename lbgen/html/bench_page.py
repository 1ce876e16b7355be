"""The pages of a benchmark, a price list and a drill; they need no network. The templates draw the charts as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.bench.faults import SECONDS, Fault
from lbgen.bench.faults.report import BUCKET_SECONDS, Bucket, Drill, FaultReport
from lbgen.bench.tables import NOTE, cost_problems, cost_tables, fault_notes, fault_problems, fault_tables, tables
from lbgen.html.page import render_template

if TYPE_CHECKING:
    from lbgen.bench.cost import CostReport
    from lbgen.bench.report import BenchReport, Row, Spread

WIDTH, LABEL, VALUE = 640, 110, 90  # of a chart, of the names on its left, of the figures on its right
_ROW, _BAR = 30, 16
_PLOT_HEIGHT, _LEFT, _BOTTOM = 220, 60, 30
_MOST_TICKS = 5


class Bar(Struct, frozen=True):
    """A subject's median, with the least and greatest round as a line; `colour` counts from 0."""

    label: str
    value: str
    y: int
    width: float
    low: float
    high: float
    colour: int


class BarChart(Struct, frozen=True):
    """Horizontal bars from 0."""

    title: str
    height: int
    bars: tuple[Bar, ...]


class Line(Struct, frozen=True):
    """A subject's points, as SVG's `points`, and where its name stands."""

    label: str
    points: str
    marks: tuple[tuple[float, float], ...]
    colour: int


class LineChart(Struct, frozen=True):
    """Figures over the rate, or over time. Ticks are (pixel, text). `band`: from and to which pixel something is the
    case; `limit`: SVG's points of a line that the others should stay below."""

    title: str
    width: int
    height: int
    left: int
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    band: tuple[float, float] | None = None
    limit: str = ""


def bar_charts(report: BenchReport) -> tuple[BarChart, ...]:
    """Requests per second and CPU per request, for each closed loop."""
    colours = _colours(report)
    found = []
    for shape in dict.fromkeys(row.shape for row in report.rows):
        if shape.rate is None:
            rows = [row for row in report.rows if row.shape == shape]
            rates = [(row, row.requests_per_second) for row in rows]
            micros = [(row, row.cpu_us_per_request) for row in rows if row.cpu_us_per_request is not None]
            found.append(_bars(f"requests/s, {shape.title}", rates, colours))
            found.append(_bars(f"CPU us/request, {shape.title}", micros, colours))
    return tuple(found)


def _bars(title: str, rows: Sequence[tuple[Row, Spread]], colours: dict[str, int]) -> BarChart:
    most = max((spread.high for _, spread in rows), default=0) or 1
    scale = (WIDTH - LABEL - VALUE) / most
    bars = []
    for number, (row, spread) in enumerate(rows):
        low, high = (edge * scale for edge in (spread.low, spread.high))
        width = spread.median * scale
        bars.append(Bar(row.subject, f"{spread.median:,.0f}", number * _ROW, width, low, high, colours[row.subject]))
    return BarChart(title, len(rows) * _ROW, tuple(bars))


def line_charts(report: BenchReport) -> tuple[LineChart, ...]:
    """p50 and p99 over the constant rates, logarithmic; none with fewer than two rates."""
    rows = [row for row in report.rows if row.rate is not None]
    rates = sorted({row.rate for row in rows if row.rate is not None})
    if len(rates) < 2:
        return ()
    colours = _colours(report)
    charts = (("p50", [(row, row.p50_ms.median) for row in rows]), ("p99", [(row, row.p99_ms.median) for row in rows]))
    return tuple(
        _lines(f"{name} ms at constant rates (requests/s)", figures, rates, colours) for name, figures in charts
    )


def _lines(
    title: str, figures: Sequence[tuple[Row, float]], rates: Sequence[int], colours: dict[str, int]
) -> LineChart:
    low = math.floor(math.log10(max(1e-3, min(value for _, value in figures))))
    high = max(low + 1, math.ceil(math.log10(max(value for _, value in figures))))
    right, top = WIDTH - 30, 10

    def x(rate: int) -> float:
        return round(_LEFT + (right - _LEFT) * rate / rates[-1], 1)

    def y(value: float) -> float:
        share = (math.log10(max(value, 1e-3)) - low) / (high - low)
        return round(_PLOT_HEIGHT - (_PLOT_HEIGHT - top) * share, 1)

    lines = []
    for subject, colour in colours.items():
        points = tuple((x(row.rate or 0), y(value)) for row, value in figures if row.subject == subject)
        lines.append(Line(subject, " ".join(f"{a},{b}" for a, b in points), points, colour))
    return LineChart(
        title,
        WIDTH,
        _PLOT_HEIGHT + _BOTTOM,
        _LEFT,
        tuple(lines),
        tuple((x(rate), f"{rate:,}") for rate in rates),
        tuple((y(10.0**power), f"{10.0**power:g}") for power in range(low, high + 1)),
    )


def timeline_chart(
    title: str,
    figures: Sequence[tuple[str, int, Sequence[tuple[float, float]]]],
    seconds: float,
    band: tuple[float, float],
    limit: Sequence[tuple[float, float]] = (),
) -> LineChart:
    """Lines (label, colour, points) over `seconds`, from 0; `limit` are points as well, `band` seconds."""
    values = [y for _, _, points in figures for _, y in points]
    most = max([*values, *(y for _, y in limit)], default=0.0)
    step = 10.0 ** math.floor(math.log10(max(most, 1.0)))
    step = next(x for x in (step / 5, step / 2, step, 2 * step) if most / x <= _MOST_TICKS or x == 2 * step)
    ticks = range(max(1, math.ceil(most / step)) + 1)
    right, top, high = WIDTH - 30, 10, ticks[-1] * step

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        return round(_LEFT + (right - _LEFT) * x / seconds, 1), round(_PLOT_HEIGHT - (_PLOT_HEIGHT - top) * y / high, 1)

    def joined(points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x},{y}" for x, y in map(place, points))

    lines = tuple(Line(label, joined(points), (), colour) for label, colour, points in figures)
    x_ticks = tuple((place((x, 0))[0], f"{x} s") for x in range(math.floor(seconds) + 1))
    y_ticks = tuple((place((0, x * step))[1], f"{x * step:g}") for x in ticks)
    edges = place((band[0], 0))[0], place((band[1], 0))[0]
    return LineChart(title, WIDTH, _PLOT_HEIGHT + _BOTTOM, _LEFT, lines, x_ticks, y_ticks, edges, joined(limit))


def _colours(report: BenchReport) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(row.subject for row in report.rows))}


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


def faults_to_html(report: FaultReport) -> str:
    """The whole document."""
    faults = [
        (table, drills[0].why, _timelines(report, fault, drills))
        for table, (fault, drills) in zip(fault_tables(report), report.by_fault().items(), strict=True)
    ]
    problems, notes = fault_problems(report), fault_notes(report)
    return render_template("faults.html.j2", report=report, faults=faults, problems=problems, notes=notes)


def _timelines(report: FaultReport, fault: Fault, drills: Sequence[Drill]) -> tuple[LineChart, ...]:
    """Good answers per second, failed requests per second, and p99; nothing where every engine failed."""
    names = [each.engine for each in report.engines]
    drills = [each for each in drills if each.requests]
    if not drills:
        return ()
    widest = max(drills, key=lambda each: each.end)
    band = (widest.begin, min(widest.end, SECONDS))

    def lines(figure: Callable[[Bucket], float | None]) -> list[tuple[str, int, list[tuple[float, float]]]]:
        found = []
        for each in drills:
            points = [(x.second + BUCKET_SECONDS / 2, y) for x in each.timeline if (y := figure(x)) is not None]
            found.append((each.engine, names.index(each.engine), points))
        return found

    most = widest.slowest_of_topology_ms
    slowest = [(0.0, most), (SECONDS, most)] if most else []
    return (
        timeline_chart(f"{fault}: good answers/s", lines(lambda x: x.answered_per_second), SECONDS, band),
        timeline_chart(
            f"{fault}: failed requests/s",
            lines(lambda x: x.failed / BUCKET_SECONDS),
            SECONDS,
            band,
            widest.may_fail_per_second,
        ),
        timeline_chart(f"{fault}: p99 ms", lines(lambda x: x.p99_ms), SECONDS, band, slowest),
    )
