"""The verdicts of engines as a table that fits 80 columns, and their notes by engine."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lbgen.cli.output import console
from lbgen.engines.verdicts import LEGEND, mark, notes, worst_by_feature

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from lbgen.engines.verdicts import Answer

# What is shown of a level, and its style.
_SHOWN = {
    "native": ("native", "green"),
    "emulated": ("emulated", "green"),
    "habit": ("habit", "green"),
    "approximate": ("approx.", "yellow"),
    "refused": ("refused", "red"),
}
_CELL = 8  # columns of the longest verdict
_WIDE = 100  # columns of a terminal with room between those of the table


def print_verdicts(columns: Mapping[str, Sequence[Answer]], titles: Mapping[str, str], title: str) -> None:
    """Print one row a feature with the worst verdict of its places, then the notes of each engine, worst first."""
    from rich.table import Table

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
    for name, found in columns.items():
        _notes(out, titles[name], found)


def _broken(label: str, room: int) -> str:
    """A name that is too long for its column on two lines, broken after a dot or an underscore."""
    if len(label) <= room:
        return label
    end = max(label.rfind(each, 0, room) for each in "._") + 1
    return f"{label[:end]}\n  {label[end:]}" if end else label


def _cell(answer: Answer) -> Text:
    from rich.text import Text

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
