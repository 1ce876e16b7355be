"""The matrix of clauses by engines: for the terminal, as JSON, as Markdown between markers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import convert, to_builtins
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from lbgen.conformance.runner import CaseState, Result
from lbgen.plan.precedence import group as by_key

_ANY_WIDTH = 10_000
_COLOURS = {
    CaseState.PASS: "green",
    CaseState.FAIL: "bold red",
    CaseState.HABIT: "cyan",
    CaseState.APPROXIMATE: "yellow",
    CaseState.REFUSED: "blue",
    CaseState.SKIPPED: "dim",
}
_ORDER = (
    CaseState.FAIL,
    CaseState.SKIPPED,
    CaseState.APPROXIMATE,
    CaseState.REFUSED,
    CaseState.HABIT,
    CaseState.PASS,
)


def group(clause: str) -> str:
    """What a clause is shown under: `2.precedence.priority` -> `2.precedence`."""
    return ".".join(clause.split(".")[:2])


def columns(results: Iterable[Result]) -> tuple[str, ...]:
    """The engines, in the order of the results."""
    return tuple(dict.fromkeys(r.subject for r in results))


def cell(found: Iterable[Result]) -> tuple[CaseState | None, str]:
    """The worst state of some results and a text: cases passed of cases, then the states of the others; None and "-"
    when there are none."""
    counts = Counter(r.state for r in found)
    worst = next((s for s in _ORDER if counts[s]), None)
    if worst is None:
        return None, "-"
    total = counts.total()
    if counts[worst] == total and worst is not CaseState.PASS:
        return worst, f"{worst}" if worst is not CaseState.FAIL else f"0/{total} fail"
    others = ", ".join(f"{counts[s]} {s}" for s in _ORDER if counts[s] and s is not CaseState.PASS)
    return worst, f"{counts[CaseState.PASS]}/{total}" + (f" ({others})" if others else "")


def matrix(results: Sequence[Result], *, by: str = "group") -> list[tuple[str, list[tuple[CaseState | None, str]]]]:
    """Rows of (clause, a cell per engine); `by` is `group` or `clause`."""
    name = group if by == "group" else str
    rows: dict[str, dict[str, list[Result]]] = {}
    for result in sorted(results, key=lambda r: r.clause):
        rows.setdefault(name(result.clause), {}).setdefault(result.subject, []).append(result)
    return [(row, [cell(cells.get(subject, ())) for subject in columns(results)]) for row, cells in rows.items()]


TITLE = "Conformance: cases passed of cases, by clause and engine"


def tables(results: Sequence[Result], console: Console, *, by: str = "group", title: str = TITLE) -> tuple[Table, ...]:
    """The matrix for a terminal: one table, or where it is too wide one for each engine, with its versions side by
    side."""
    whole = table(results, by=by, title=title)
    engines = by_key((result.subject.partition(" ")[0], result) for result in results)
    if (
        len(engines) == 1
        or Measurement.get(console, console.options.update(max_width=_ANY_WIDTH), whole).maximum <= console.width
    ):
        return (whole,)
    return tuple(table(found, by=by, title=f"{name}: {title}") for name, found in engines.items())


def table(results: Sequence[Result], *, by: str = "group", title: str = TITLE) -> Table:
    """The matrix for the terminal."""
    made = Table(title=title)
    made.add_column("clause", no_wrap=True)
    for subject in columns(results):
        made.add_column(subject.replace(" ", "\n"), overflow="fold")
    for row, cells in matrix(results, by=by):
        shown = [f"[{_COLOURS[s]}]{_short(text)}[/]" if s is not None else "-" for s, text in cells]
        made.add_row(row, *shown)
    made.add_section()
    made.add_row("all", *(_short(text) for _, text in totals(results)))
    return made


def _short(text: str) -> str:
    """For a narrow terminal."""
    return text.replace(" (", "\n").replace(")", "").replace("approximate", "approx.").replace(", ", "\n")


def totals(results: Sequence[Result]) -> list[tuple[CaseState | None, str]]:
    """One cell per engine over everything."""
    return [cell(r for r in results if r.subject == subject) for subject in columns(results)]


def markdown(results: Sequence[Result]) -> str:
    """The matrix as Markdown, with the approximate differences and refusals below it."""
    names = columns(results)
    lines = ["| clause | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    rows = [(row, f"[{row}](contract.md#{row.replace('.', '')})", cells) for row, cells in matrix(results)]
    for _, link, cells in [*rows, ("all", "**all**", totals(results))]:  # links are from docs/conformance.md
        lines.append(f"| {link} | " + " | ".join(text for _, text in cells) + " |")
    for state, title in ((CaseState.APPROXIMATE, "Approximate"), (CaseState.REFUSED, "Refused")):
        reasons: dict[tuple[str, str], int] = {}
        for r in results:
            if r.state is state:
                key = (r.subject, r.detail.split("; ")[0])
                reasons[key] = reasons.get(key, 0) + 1
        if reasons:
            lines += ["", f"{title}:", ""]
            lines += [f"- {s}: {why} ({count} case{'s' * (count > 1)})" for (s, why), count in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def as_json(results: Sequence[Result]) -> str:
    """All results and the counts per engine."""
    counts = {s: Counter(str(r.state) for r in results if r.subject == s) for s in columns(results)}
    return json.dumps({"totals": counts, "results": to_builtins(results)}, indent=1) + "\n"


def from_json(texts: Iterable[str]) -> tuple[Result, ...]:
    """The results in texts that `as_json` wrote, subject by subject."""
    rows = [row for text in texts for row in json.loads(text)["results"]]
    found = convert(rows, list[Result])
    return tuple(sorted(found, key=lambda r: (r.subject, r.file)))


def insert(path: Path, text: str, name: str = "conformance") -> None:
    """Put `text` between the markers of that name in a file; write the file anew when it has none."""
    begin, end = (f"<!-- {name}:{word} -->" for word in ("begin", "end"))
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if begin in old and end in old:
        head, _, rest = old.partition(begin)
        tail = rest.partition(end)[2]
        text = f"{head}{begin}\n{text}{end}{tail}"
    path.write_text(text, encoding="utf-8")
