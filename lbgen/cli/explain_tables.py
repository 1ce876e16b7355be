"""The tables of `lbgen explain`: verdicts with their notes, what features cost, and which versions serve a topology."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lbgen.cli.output import console
from lbgen.diagnostics import Diagnostic
from lbgen.engines.api import Level, engine, target_version
from lbgen.engines.costs import Cost, Costs, costs
from lbgen.engines.verdicts import BY_DOCUMENTATION, LEGEND, Answer, mark, notes, obstacles_by_version, worst_by_feature
from lbgen.plan.model import Plan

# What is shown of a level, and its style.
_SHOWN = {
    "native": ("native", "green"),
    "emulated": ("emulated", "green"),
    "habit": ("habit", "green"),
    "documented": ("docs", "cyan"),
    "approximate": ("approx.", "yellow"),
    "refused": ("refused", "red"),
}
_CELL = 8  # columns of the longest verdict
_WIDE = 100  # columns of a terminal with room between those of the table
_FIELDS = 3  # shown of those that ask for a feature
_NAMED = 3  # findings of a version that are named


def print_verdicts(columns: Mapping[str, Sequence[Answer]], titles: Mapping[str, str], title: str) -> None:
    """Print one row a feature with the worst verdict of its places, then the notes of each engine, worst first."""
    rows = worst_by_feature(columns)
    out = console()
    gap = 2 if out.width >= _WIDE else 1
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, gap, 0, 0)
    )
    table.add_column("feature", no_wrap=True)
    for name in columns:
        engine, _, version = titles[name].rpartition(" ")
        table.add_column(f"{engine}\n{version}", no_wrap=True)
    room = out.width - sum(max(_CELL, len(titles[name].rpartition(" ")[0])) + gap for name in columns)
    for label, cells in rows.items():
        table.add_row(_broken(label, room), *(_cell(cells[name]) if name in cells else "" for name in columns))
    out.print(table)
    marks = {mark(answer) for found in columns.values() for answer in found}
    for each, meaning in LEGEND.items():
        if each in marks:
            _wrapped(out, f"approx.{each}  ", meaning)
    if any(answer.verdict.level is Level.DOCUMENTED for found in columns.values() for answer in found):
        _wrapped(out, "docs     ", BY_DOCUMENTATION)
    for name, found in columns.items():
        _notes(out, titles[name], found)


def _broken(label: str, room: int) -> str:
    """A name that is too long for its column on several lines, broken after dots and underscores."""
    lines, indent = [], ""
    while len(indent) + len(label) > room:
        end = max(label.rfind(each, 0, room - len(indent)) for each in "._") + 1
        if not end:
            break
        lines.append(f"{indent}{label[:end]}")
        label, indent = label[end:], "  "
    return "\n".join((*lines, f"{indent}{label}"))


def _cell(answer: Answer) -> Text:
    word, style = _SHOWN[str(answer.verdict.level)]
    return Text(f"{word}{mark(answer)}", style=style)


def _notes(out: Console, title: str, found: Sequence[Answer]) -> None:
    """Print each note once with the features, or the places, that have it."""
    subjects = notes(found)
    if subjects:
        out.print(f"\n[bold]{title}[/]")
    for (level, marked, note), labels in subjects.items():
        _wrapped(out, f"  {f'{_SHOWN[level][0]}{marked}':9}", f"{', '.join(labels)}: {note}")


def _wrapped(out: Console, head: str, text: str) -> None:
    """Print `head` and `text`, wrapped between words on a terminal, one line elsewhere."""
    if out.soft_wrap:
        out.print(f"{head}{text}", markup=False)
        return
    lines = textwrap.wrap(text, max(out.width - len(head), 20), break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        out.print(f"{head if number == 0 else ' ' * len(head)}{line}", markup=False, no_wrap=True, overflow="ignore")


def explain_costs(plan: Plan, names: tuple[str, ...], *, quiet: bool = False) -> dict[str, Costs | None]:
    """Return the figures by engine; print the table unless `quiet`."""
    found: dict[str, tuple[str, Costs | None]] = {}
    for name in names:
        target = engine(name)
        version = target_version(target, plan.options(name).version)
        found[name] = (target.title, costs(plan, target, version))
    if not quiet:
        title = "CPU per request" if plan.tier is None else f"CPU per request of tier {plan.tier.tier}"
        _print_costs(dict(found.values()), title)
    return {name: measured for name, (_, measured) in found.items()}


def _print_costs(found: dict[str, Costs | None], title: str) -> None:
    known = {name: measured for name, measured in found.items() if measured is not None}
    table = Table(title=f"{title}, in microseconds", title_justify="left")
    table.add_column("feature", no_wrap=True)
    for name, measured in known.items():
        table.add_column(f"{name} {measured.measured.version}", justify="right")
    table.add_row("forward, nothing else", *(f"{measured.forward_us:.1f}" for measured in known.values()))
    rows: dict[str, dict[str, Cost]] = {}
    for name, measured in known.items():
        for cost in measured.features:
            rows.setdefault(cost.feature, {})[name] = cost
    order = sorted(rows, key=lambda row: -max(_share(cost, known[name]) for name, cost in rows[row].items()))
    for row in order:
        cells = [_cost_cell(rows[row].get(name), measured) for name, measured in known.items()]
        table.add_row(row, *cells)
    out = console()
    out.print(table)
    out.print("[dim]0[/]: within the noise. [dim]-[/]: not used or not measured there.")
    for row in order:
        cost = next(iter(rows[row].values()))
        if not all(each.noise for each in rows[row].values()):
            more = f" and {len(cost.fields) - _FIELDS} more" if len(cost.fields) > _FIELDS else ""
            asked = f"asked for by {', '.join(cost.fields[:_FIELDS])}{more}; " if cost.fields else ""
            out.print(f"  {row}: {asked}cheaper: {cost.cheaper}", markup=False, highlight=False)
    for name, measured in known.items():
        by = measured.measured
        out.print(f"{name} {by.version}, {by.date}: {by.method}", markup=False, highlight=False)
    for name in found:
        if name not in known:
            out.print(f"{name}: nothing was measured", markup=False, highlight=False)


def _share(cost: Cost, measured: Costs) -> float:
    """Of forwarding alone."""
    return 0.0 if cost.noise else cost.us / measured.forward_us


def _cost_cell(cost: Cost | None, measured: Costs) -> str:
    """`+2.1 (10%)`: microseconds, and their share of forwarding alone."""
    if cost is None:
        return "[dim]-[/]"
    if cost.noise:
        return "[dim]0[/]"
    return f"{cost.us:+.1f} [dim]({_share(cost, measured):.0%})[/]"


def explain_versions(plan: Plan, names: tuple[str, ...], *, quiet: bool = False) -> dict[str, object]:
    """Return the findings that rule a version out, by engine and version; print the table unless `quiet`."""
    found = {name: obstacles_by_version(plan, engine(name)) for name in names}
    if not quiet:
        table = Table("engine", "version", "serves it", "what rules it out", title=_title(plan), title_justify="left")
        for name, versions in found.items():
            rows = ((v, "\n".join(map(_why, reasons[:_NAMED])) + _more(reasons)) for v, reasons in versions.items())
            for _, alike in groupby(rows, key=lambda row: row[1] or row[0]):
                which, texts = zip(*alike, strict=True)
                table.add_row(name, "\n".join(which), "no" if texts[0] else "yes", texts[0])
        console().print(table, markup=False)
    return {name: {v: [d.as_dict() for d in each] for v, each in versions.items()} for name, versions in found.items()}


def _why(reason: Diagnostic) -> str:
    """The field, and the engine's own words."""
    note = reason.message.partition(": ")[2].partition("; ")[0]
    return f"{reason.field}: {note}" + (f" (--accept {reason.accept})" if reason.accept else "")


def _more(reasons: tuple[Diagnostic, ...]) -> str:
    return f"\nand {len(reasons) - _NAMED} more" if len(reasons) > _NAMED else ""


def _title(plan: Plan) -> str:
    return "versions" if plan.tier is None else f"versions for tier {plan.tier.tier}"
