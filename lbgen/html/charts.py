"""Charts of a benchmark: numbers of pixels for the template, which draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.bench.report import BenchReport, Row, Spread

WIDTH, LABEL, VALUE = 640, 110, 90  # of a chart, of the names on its left, of the figures on its right
_ROW, _BAR = 30, 16
_PLOT_HEIGHT, _LEFT, _BOTTOM = 220, 60, 30


@dataclass(frozen=True, slots=True)
class Bar:
    """A subject's median, with the quartiles as a line; `colour` counts from 0."""

    label: str
    value: str
    y: int
    width: float
    low: float
    high: float
    colour: int


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars from 0."""

    title: str
    height: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A subject's points, as SVG's `points`, and where its name stands."""

    label: str
    points: str
    marks: tuple[tuple[float, float], ...]
    colour: int


@dataclass(frozen=True, slots=True)
class LineChart:
    """Latency over the rate; the y axis is logarithmic. Ticks are (pixel, text)."""

    title: str
    width: int
    height: int
    left: int
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def bar_charts(report: BenchReport) -> tuple[BarChart, ...]:
    """Requests per second and CPU per request, for each closed loop."""
    colours = _colours(report)
    found = []
    for shape in report.load.generators:
        if shape.rate is None:
            rows = [row for row in report.rows if row.shape == shape]
            rates = [(row, row.per_second) for row in rows]
            micros = [(row, row.cpu_us) for row in rows if row.cpu_us is not None]
            found.append(_bars(f"requests/s, {shape.title}", rates, colours))
            found.append(_bars(f"CPU us/request, {shape.title}", micros, colours))
    return tuple(found)


def _bars(title: str, rows: Sequence[tuple[Row, Spread]], colours: dict[str, int]) -> BarChart:
    most = max((spread.quartiles[1] for _, spread in rows), default=0) or 1
    scale = (WIDTH - LABEL - VALUE) / most
    bars = []
    for number, (row, spread) in enumerate(rows):
        low, high = (edge * scale for edge in spread.quartiles)
        width = spread.median * scale
        bars.append(Bar(row.subject, f"{spread.median:,.0f}", number * _ROW, width, low, high, colours[row.subject]))
    return BarChart(title, len(rows) * _ROW, tuple(bars))


def line_charts(report: BenchReport) -> tuple[LineChart, ...]:
    """p50 and p99 over the constant rates; none with fewer than two rates."""
    rows = [row for row in report.rows if row.shape.rate is not None]
    rates = sorted({row.shape.rate for row in rows if row.shape.rate is not None})
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
        points = tuple((x(row.shape.rate or 0), y(value)) for row, value in figures if row.subject == subject)
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


def _colours(report: BenchReport) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(row.subject for row in report.rows))}
