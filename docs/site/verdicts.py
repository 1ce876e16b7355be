"""The verdicts of one engine on all features, for its page."""

from __future__ import annotations

from lbgen.engines.api import Engine, Level
from lbgen.plan.features import all_features


def verdicts_of(target: Engine) -> str:
    """Return a table for each level: what it is about, and what the engine does."""
    return "\n\n".join(_table(target, level) for level in Level if _rows(target, level))


def _table(target: Engine, level: Level) -> str:
    rows = "\n".join(f"| {', '.join(f'`{x}`' for x in features)} | {note} |" for note, features in _rows(target, level))
    return f"### {str(level).capitalize()}\n\n| about | {target.title} |\n|---|---|\n{rows}"


def _rows(target: Engine, level: Level) -> list[tuple[str, list[str]]]:
    """Notes with the features that they are about, in the order of the features."""
    found: dict[str, list[str]] = {}
    for feature in all_features():
        verdict = target.verdict(feature, target.versions[0])
        if verdict.level is level:
            found.setdefault(verdict.note.replace("|", "\\|"), []).append(feature)
    return list(found.items())
