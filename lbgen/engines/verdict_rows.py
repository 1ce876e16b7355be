"""Answers of several engines as rows of a table, and their notes, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.engines.verdicts import Answer

LEVELS = ("native", "emulated", "habit", "approximate", "refused")  # from the best to the worst
DEFAULT, ACCEPTED = "*", "+"
LEGEND = {
    DEFAULT: "no field asks for it and no client can bypass a rule with it: it does not stop a render",
    ACCEPTED: "accepted, by the topology or its profile",
}


def worst_by_feature(columns: Mapping[str, Sequence[Answer]]) -> dict[str, dict[str, Answer]]:
    """By feature and engine the worst answer of all places."""
    rows: dict[str, dict[str, Answer]] = {}
    for name, found in columns.items():
        for answer in found:
            row = rows.setdefault(label(answer), {})
            row[name] = max(row.get(name, answer), answer, key=_badness)
    return rows


def notes(found: Sequence[Answer]) -> dict[tuple[str, str, str], list[str]]:
    """Level, mark and text of each note of one engine, with the features or places that have it; the worst first."""
    subjects: dict[tuple[str, str, str], list[str]] = {}
    for answer in sorted(found, key=_badness, reverse=True):
        if answer.verdict.note:
            place = f" at {answer.fields[0]}" if answer.place and answer.fields else ""
            key = (str(answer.verdict.level), mark(answer), answer.verdict.note)
            labels = subjects.setdefault(key, [])
            if (shown := f"{label(answer)}{place}") not in labels:
                labels.append(shown)
    return subjects


def label(answer: Answer) -> str:
    """What an answer is about."""
    return str(answer.feature or "a value")


def mark(answer: Answer) -> str:
    """`DEFAULT` or `ACCEPTED` for an approximate answer that stops nothing, else nothing."""
    if answer.verdict.level != "approximate":
        return ""
    return ACCEPTED if answer.accepted else DEFAULT if answer.default else ""


def _badness(answer: Answer) -> tuple[int, bool]:
    return LEVELS.index(str(answer.verdict.level)), not mark(answer)
