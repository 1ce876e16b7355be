"""The habits of each engine, from its verdict table, for docs/habits.md."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Engine, Level, engines
from lbgen.plan.features import Feature, all_features


def habits() -> str:
    """Return a table for each engine: what it is about, what the engine does, and in which versions."""
    parts = (f"## {target.title}\n\n{_table(target)}\n" for target in engines().values() if _rows(target))
    return "\n".join(parts)


def _table(target: Engine) -> str:
    rows = "\n".join(f"| `{feature}` | {note} | {where} |" for feature, note, where in _rows(target))
    return f"| about | {target.title}'s own way | versions |\n|---|---|---|\n{rows}"


def _rows(target: Engine) -> list[tuple[Feature, str, str]]:
    return [
        (feature, note.replace("|", "\\|"), "all" if len(where) == len(target.versions) else ", ".join(where))
        for feature in all_features()
        for note, where in _by_note(target, feature)
    ]


def _by_note(target: Engine, feature: Feature) -> Iterator[tuple[str, list[str]]]:
    """Each note on a feature with the versions that have it."""
    found: dict[str, list[str]] = {}
    for version in target.versions:
        verdict = target.verdict(feature, version)
        if verdict.level is Level.HABIT:
            found.setdefault(verdict.note, []).append(version)
    yield from found.items()
