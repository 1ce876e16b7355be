"""The table of verdicts at 80, 120 and 200 columns and in a pipe."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

import lbgen
from lbgen.cli import explain_tables
from lbgen.engines.api import NATIVE, engine, engine_names, engines, habit, local_engines
from lbgen.engines.verdicts import Answer, answers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.engines.api import Engine

TITLES = {name: f"{engine(name).title} {engine(name).versions[0]}" for name in engine_names()}


def columns(every: Mapping[str, Engine] | None = None) -> dict[str, tuple[Answer, ...]]:
    endpoints = [{"address": "10.0.0.1:80", "weight": 2}, {"address": "10.0.0.2:80"}]
    checks = {"passive": {"failures": 5, "eject_for": "10s"}}
    pool = {"endpoints": endpoints, "health": checks, "balance": "least_connections"}
    route = {"name": "app", "forward": "app", "timeouts": {"idle": "1h"}, "retries": {"max": 2, "on": [502]}}
    data = {"version": 1, "name": "x", "listeners": {"web": {"port": 8080}}, "pools": {"app": pool}, "routes": [route]}
    plan = lbgen.plan(lbgen.load(data))
    return {name: answers(plan, each, each.versions[0]) for name, each in (every or local_engines()).items()}


def shown(
    monkeypatch: pytest.MonkeyPatch, width: int, *, pipe: bool = False, of: Mapping[str, Sequence[Answer]] | None = None
) -> list[str]:
    out = Console(
        file=io.StringIO(), width=width, soft_wrap=pipe, highlight=False, force_terminal=not pipe, color_system=None
    )
    monkeypatch.setattr(explain_tables, "console", lambda: out)
    explain_tables.print_verdicts(columns() if of is None else of, TITLES, "verdicts")
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


@pytest.mark.parametrize("every", [local_engines(), engines()], ids=["local", "all"])
@pytest.mark.parametrize("width", [80, 120, 200])
def test_it_fits_a_terminal_and_cuts_nothing(
    monkeypatch: pytest.MonkeyPatch, width: int, every: Mapping[str, Engine]
) -> None:
    of = columns(every)
    lines = shown(monkeypatch, width, of=of)
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    words = {"native", "emulated", "habit", "docs", "approx.", "approx.*", "approx.+", "refused"}
    rows: list[tuple[str, list[str]]] = []  # a name that is too long goes on below
    for line in lines:
        first, *cells = line.split() or [""]
        if line.startswith("  ") and rows and not cells:
            rows[-1] = (rows[-1][0] + first, rows[-1][1])
        else:
            rows.append((first, cells))
    for name in {str(answer.feature) for found in of.values() for answer in found}:
        (cells,) = [found for first, found in rows if first == name and words.issuperset(found)]
        # An engine that has no verdict on the feature itself may have one on a single place.
        assert len(cells) == sum(any(x.feature == name for x in found) for found in of.values())


def test_notes_stand_on_one_line_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, 80, pipe=True)
    notes = {answer.verdict.note for found in columns().values() for answer in found if answer.verdict.note}
    assert all(any(line.endswith(note) for line in lines) for note in notes)


def test_a_wrapped_note_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(line.strip() for line in shown(monkeypatch, 80))
    notes = {answer.verdict.note for found in columns().values() for answer in found if answer.verdict.note}
    assert all(note in text for note in notes)


def test_a_feature_shows_the_worst_of_its_places(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Answer("timeouts.idle", NATIVE, ("timeouts.idle",))
    place = Answer("timeouts.idle", habit("the longer holds"), ("routes[0].timeouts.idle",), place=True)
    lines = shown(monkeypatch, 120, of=dict.fromkeys(TITLES, (whole, place)))
    row = next(line.split() for line in lines if line.startswith("timeouts.idle "))
    assert row[1:] == ["habit"] * len(TITLES)
    assert any("timeouts.idle at routes[0].timeouts.idle" in line for line in lines)
