"""`lbgen explain --cost`: what the features of a topology cost per request on each engine, and what is cheaper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.cli.output import console

if TYPE_CHECKING:
    from lbgen.engines.costs import Cost, Costs
    from lbgen.plan.model import Plan

_FIELDS = 3  # shown of those that ask for a feature


def explain_costs(plan: Plan, names: tuple[str, ...], *, quiet: bool = False) -> dict[str, object]:
    """Return the JSON record by engine; print the table unless `quiet`."""
    from lbgen.engines.api import engine, target_version
    from lbgen.engines.costs import costs

    found: dict[str, tuple[str, Costs | None]] = {}
    for name in names:
        target = engine(name)
        version = target_version(target, plan.options(name).version)
        found[name] = (target.title, costs(plan, target, version))
    if not quiet:
        title = "CPU per request" if plan.tier is None else f"CPU per request of tier {plan.tier.tier}"
        _table(dict(found.values()), title)
    return {name: None if measured is None else measured.as_dict() for name, (_, measured) in found.items()}


def _table(found: dict[str, Costs | None], title: str) -> None:
    from rich.table import Table

    known = {name: measured for name, measured in found.items() if measured is not None}
    table = Table(title=f"{title}, in microseconds", title_justify="left")
    table.add_column("feature", no_wrap=True)
    for name, measured in known.items():
        table.add_column(f"{name} {measured.version}", justify="right")
    table.add_row("forward, nothing else", *(f"{measured.base:.1f}" for measured in known.values()))
    rows: dict[str, dict[str, Cost]] = {}
    for name, measured in known.items():
        for cost in measured.features:
            rows.setdefault(cost.name, {})[name] = cost
    order = sorted(rows, key=lambda row: -max(_share(cost, known[name]) for name, cost in rows[row].items()))
    for row in order:
        cells = [_cell(rows[row].get(name), measured) for name, measured in known.items()]
        table.add_row(row, *cells)
    out = console()
    out.print(table)
    out.print("[dim]0[/]: within the noise. [dim]-[/]: not used or not measured there.")
    for row in order:
        cost = next(iter(rows[row].values()))
        if not all(each.is_noise for each in rows[row].values()):
            more = f" and {len(cost.fields) - _FIELDS} more" if len(cost.fields) > _FIELDS else ""
            asked = f"asked for by {', '.join(cost.fields[:_FIELDS])}{more}; " if cost.fields else ""
            out.print(f"  {row}: {asked}cheaper: {cost.cheaper}", markup=False, highlight=False)
    for name, measured in known.items():
        out.print(f"{name} {measured.version}, {measured.date}: {measured.method}", markup=False, highlight=False)
    for name in found:
        if name not in known:
            out.print(f"{name}: nothing was measured", markup=False, highlight=False)


def _share(cost: Cost, measured: Costs) -> float:
    """Of forwarding alone."""
    return 0.0 if cost.is_noise else cost.micros / measured.base


def _cell(cost: Cost | None, measured: Costs) -> str:
    """`+2.1 (10%)`: microseconds, and their share of forwarding alone."""
    if cost is None:
        return "[dim]-[/]"
    if cost.is_noise:
        return "[dim]0[/]"
    return f"{cost.micros:+.1f} [dim]({_share(cost, measured):.0%})[/]"
