"""The verdicts of engines as a table that fits 80 columns, and their notes by engine."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lbgen.cli.output import console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from lbgen.engines.verdicts import Answer

# From the best to the worst: what is shown, its style, and whether a default or an accepted one has a mark.
_SHOWN = {
    "native": ("native", "green"),
    "emulated": ("emulated", "green"),
    "approximate": ("approx.", "yellow"),
    "refused": ("refused", "red"),
}
_LEVELS = tuple(_SHOWN)
_CELL = 8  # columns of the longest verdict
_DEFAULT, _ACCEPTED = "*", "+"
_LEGEND = {
    _DEFAULT: "no field asks for it and no client can bypass a rule with it: it does not stop a render",
    _ACCEPTED: "accepted, by the topology or its profile",
}


def print_verdicts(columns: Mapping[str, Sequence[Answer]], titles: Mapping[str, str], title: str) -> None:
    """Print one row a feature with the worst verdict of its places, then the notes of each engine, worst first."""
    from rich.table import Table

    rows: dict[str, dict[str, Answer]] = {}
    for name, found in columns.items():
        for answer in found:
            row = rows.setdefault(_label(answer), {})
            row[name] = max(row.get(name, answer), answer, key=_badness)
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("feature", no_wrap=True)
    for name in columns:
        engine, _, version = titles[name].rpartition(" ")
        table.add_column(f"{engine}\n{version}", no_wrap=True)
    out = console()
    room = out.width - (_CELL + 2) * len(columns)
    for label, cells in rows.items():
        table.add_row(_broken(label, room), *(_cell(cells[name]) if name in cells else "" for name in columns))
    out.print(table)
    marks = {_mark(answer) for found in columns.values() for answer in found}
    for mark, meaning in _LEGEND.items():
        if mark in marks:
            _wrapped(out, f"approx.{mark}  ", meaning)
    for name, found in columns.items():
        _notes(out, titles[name], found)


def _broken(label: str, room: int) -> str:
    """A name that is too long for its column on two lines, broken after a dot."""
    dot = label.rfind(".", 0, room)
    return label if len(label) <= room or dot < 0 else f"{label[: dot + 1]}\n  {label[dot + 1 :]}"


def _label(answer: Answer) -> str:
    return str(answer.feature or "a value")


def _badness(answer: Answer) -> tuple[int, bool]:
    return _LEVELS.index(str(answer.verdict.level)), not _mark(answer)


def _mark(answer: Answer) -> str:
    if answer.verdict.level != "approximate":
        return ""
    return _ACCEPTED if answer.accepted else _DEFAULT if answer.default else ""


def _cell(answer: Answer) -> Text:
    from rich.text import Text

    word, style = _SHOWN[str(answer.verdict.level)]
    return Text(f"{word}{_mark(answer)}", style=style)


def _notes(out: Console, title: str, found: Sequence[Answer]) -> None:
    """Print each note once with the features, or the places, that have it."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for answer in sorted(found, key=_badness, reverse=True):
        if answer.verdict.note:
            place = f" at {answer.fields[0]}" if answer.place and answer.fields else ""
            word = f"{_SHOWN[str(answer.verdict.level)][0]}{_mark(answer)}"
            subjects.setdefault((word, answer.verdict.note), []).append(f"{_label(answer)}{place}")
    if not subjects:
        return
    out.print(f"\n[bold]{title}[/]")
    for (word, note), labels in subjects.items():
        _wrapped(out, f"  {word:9}", f"{', '.join(dict.fromkeys(labels))}: {note}")


def _wrapped(out: Console, head: str, text: str) -> None:
    """Print `head` and `text`, wrapped between words on a terminal, one line elsewhere."""
    if out.soft_wrap:
        out.print(f"{head}{text}", markup=False)
        return
    lines = textwrap.wrap(text, max(out.width - len(head), 20), break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        out.print(f"{head if number == 0 else ' ' * len(head)}{line}", markup=False, no_wrap=True, overflow="ignore")
