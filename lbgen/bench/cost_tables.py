"""The price list of a topology as tables of text: one for each engine, a row for each feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.bench.tables import DROWNS, Figure, FigureRow, FigureTable, markdown_lines

if TYPE_CHECKING:
    from lbgen.bench.added import Added
    from lbgen.bench.cost import CostReport, EngineCosts
    from lbgen.bench.report import Spread

_COLUMNS = ("CPU us/request", "p50 ms")
NOTE = f"below each price where it is with a confidence of 99.9 %; {DROWNS}: that is on both sides of 0"


def cost_tables(report: CostReport) -> tuple[FigureTable, ...]:
    """One for each engine; the first row is the whole topology."""
    return tuple(_table(each) for each in report.engines)


def cost_problems(report: CostReport) -> tuple[str, ...]:
    """The features without which an engine did not run, in sentences."""
    return tuple(
        f"{each.engine.engine}: not measured without {feature}: {why}"
        for each in report.engines
        for feature, why in each.failed.items()
    )


def cost_to_markdown(report: CostReport) -> str:
    """The tables, and what was not measured."""
    target = report.target
    lines = [
        f"# {report.name}: what each feature adds",
        "",
        f"GET `{target.target}`, route `{target.route}`; {report.rounds} rounds of {report.seconds} s: median "
        f"(least-greatest), prices: mean (interval). {report.cores} cores.",
    ]
    for table in cost_tables(report):
        lines += ["", f"## {table.title}", "", *markdown_lines(table, "feature")]
    problems = [*cost_problems(report), *(f"{x.engine}, {x.why}: {x.reasons[0].message}" for x in report.not_measured)]
    if problems:
        lines += ["", "## Not measured", "", *(f"- {each}" for each in problems)]
    return "\n".join([*lines, "", NOTE, ""])


def _table(costs: EngineCosts) -> FigureTable:
    title = f"{costs.engine.engine} {costs.engine.version}: CPU in closed loops, p50 at {costs.rate} requests/s"
    whole = FigureRow("the whole topology", "", (_figure(costs.cpu_us, 0), _figure(costs.p50_ms, 2)))
    rows = (FigureRow(x.feature, "", (_added(x.cpu_us, 1), _added(x.p50_ms, 2))) for x in costs.prices)
    return FigureTable(title, _COLUMNS, (whole, *rows))


def _added(added: Added, digits: int) -> Figure:
    low, high = added.interval
    figure = f"{added.mean:+.{digits}f}" if added.measurable else DROWNS
    return Figure(figure, f"{low:+.{digits}f} to {high:+.{digits}f}")


def _figure(spread: Spread, digits: int) -> Figure:
    low, high = spread.extremes
    return Figure(f"{spread.median:.{digits}f}", f"{low:.{digits}f}-{high:.{digits}f}")
