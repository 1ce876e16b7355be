"""What `lbgen bench` prints: a table for each shape of load, or what each feature costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from lbgen.bench.cost import Added, CostReport, EngineCosts
    from lbgen.bench.load import LoadShape
    from lbgen.bench.report import BenchReport, Row, Spread, UnmeasuredEngine

_CLOSED = ("requests/s", "CPU us/\nrequest", "p50 ms", "p99 ms", "peak\nMiB", "errors", "not 2xx\nor 3xx")
_CONSTANT = (
    "p50 ms", "over\ndirect", "p95 ms", "p99 ms", "p99.9\nms", "CPU us/\nrequest", "errors", "not 2xx\nor 3xx"
)  # fmt: skip
_DROWNS = "not measurable here"


def print_bench(out: Console, report: BenchReport) -> None:
    """A table for each shape of load, what was not measured, and notes."""
    load = report.load
    if report.rows:
        sent = ", ".join(f"{name}: {value}" for name, value in load.target.headers)
        out.print(
            f"{report.name}: GET {load.target.target} ({sent}), route {load.target.route}, {load.body_bytes} B",
            markup=False,
        )
        out.print(f"{load.rounds} rounds of {load.seconds} s: median, and below it the quartiles", markup=False)
    for shape in load.generators:
        out.print(_table(report, shape))
    _print_unmeasured(out, report.not_measured)
    if not report.rows:
        out.print("no engine was measured", style="bold red")
    for note in report.notes if report.rows else ():
        out.print(note, markup=False, style="dim")


def print_cost(out: Console, report: CostReport) -> None:
    """A table for each engine."""
    target = report.target
    out.print(f"{report.name}: what each feature adds to GET {target.target}, route {target.route}", markup=False)
    out.print(f"{report.rounds} rounds of {report.seconds} s: median, and below it the quartiles", markup=False)
    for each in report.engines:
        out.print(_costs(each))
        for feature, why in each.failed.items():
            out.print(f"not measured without {feature}: {why}", markup=False)
    _print_unmeasured(out, report.not_measured)
    if not report.engines:
        out.print("no engine was measured", style="bold red")
    else:
        note = "two figures of the whole topology were as far apart, or the quartiles are on both sides of 0"
        out.print(f"{_DROWNS}: {note}", markup=False, style="dim")


def _costs(costs: EngineCosts) -> Table:
    title = f"{costs.engine.engine} {costs.engine.version}, {costs.rate} requests/s at a constant rate"
    table = _empty_table(title, "feature", ("CPU us/\nrequest", "p50 ms"))
    table.add_row("the whole topology", _spread(costs.cpu_us, 0), _spread(costs.p50_ms, 2))
    for price in costs.prices:
        table.add_row(price.feature, _added(price.cpu_us, 1), _added(price.p50_ms, 2))
    return table


def _added(added: Added, digits: int) -> str:
    low, high = added.spread.quartiles
    figure = f"{added.spread.median:+.{digits}f}" if added.measurable else _DROWNS
    return f"{figure}\n{low:+.{digits}f} to {high:+.{digits}f}"


def _print_unmeasured(out: Console, not_measured: Sequence[UnmeasuredEngine]) -> None:
    for each in not_measured:
        more = f" (and {len(each.reasons) - 1} more)" if len(each.reasons) > 1 else ""
        out.print(f"not measured, {each.why}: {each.engine}: {each.reasons[0].message}{more}", markup=False)


def _empty_table(title: str, head: str, columns: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(head)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _table(report: BenchReport, shape: LoadShape) -> Table:
    title = f"{shape.title}, by {report.load.generators[shape].partition(' (')[0]}"
    table = _empty_table(title, "engine", _CLOSED if shape.rate is None else _CONSTANT)
    versions = {each.engine: each.version for each in report.engines}
    for row in report.rows:
        if row.shape == shape:
            figures = _closed(row) if shape.rate is None else _constant(row, report.over_direct(row))
            behind = "\nbehind" if row.behind else ""
            table.add_row(f"{row.subject}\n{versions.get(row.subject, '')}{behind}", *figures)
    return table


def _closed(row: Row) -> tuple[str, ...]:
    return (
        _spread(row.per_second, 0),
        _spread(row.cpu_us, 0),
        _spread(row.p50_ms, 1),
        _spread(row.p99_ms, 1),
        "-" if row.peak_memory is None else f"{row.peak_memory:.0f}",
        str(row.errors),
        str(row.refused),
    )


def _constant(row: Row, over_direct: Spread | None) -> tuple[str, ...]:
    return (
        _spread(row.p50_ms, 2),
        _spread(over_direct, 2),
        _spread(row.p95_ms, 1),
        _spread(row.p99_ms, 1),
        _spread(row.p999_ms, 1),
        _spread(row.cpu_us, 0),
        str(row.errors),
        str(row.refused),
    )


def _spread(figure: Spread | None, digits: int) -> str:
    if figure is None:
        return "-"
    low, high = figure.quartiles
    return f"{figure.median:.{digits}f}\n{low:.{digits}f}-{high:.{digits}f}"
