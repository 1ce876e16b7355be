"""What each field of the spec adds to the files of each engine: tests/golden/fields/<model>.<field>.diff.

A field is set in the first small topology (`tests/fields/contexts.yaml`) where an engine renders it, by each of its
values (`tests/fields/values.yaml`); the file has the lines that come and go, or why the engine stops. So a change of
how a feature is rendered is one small diff to read, and a new field of the model has its file without a new test.
`--update-golden` rewrites them.
"""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from lbgen.engines.api import engine, local_engines
from tests.fields.fields import CONTEXTS, Change, changes
from tests.fields.test_fields import State, came_of, state

HERE = Path(__file__).parent / "fields"


@cache
def by_field() -> dict[str, list[Change]]:
    """The changes to show of each field: those of the first context in which an engine renders it, else stops."""
    found: dict[str, dict[str, list[Change]]] = defaultdict(lambda: defaultdict(list))
    for context in CONTEXTS:
        for change in changes(context):
            found[change.name][context].append(change)
    return {name: next(filter(_rendered, each.values()), next(iter(each.values()))) for name, each in found.items()}


def _rendered(shown: list[Change]) -> bool:
    return any(came_of(change, name) == "rendered" for change in shown for name in local_engines())


def told(change: Change) -> str:
    lines = [f"# {change.path}: {json.dumps(change.value)}"]
    before, after = state(json.dumps(change.before)), state(json.dumps(change.after))
    lines += [f"{code} {field}" for code, field in sorted(after.found - before.found)]
    if after.plan is None:
        return "\n".join(lines)
    for name in local_engines():
        if before.plan is not None and before.files(name) is None:
            continue  # it cannot serve such a listener at all
        new = after.stops(name) - before.stops(name) if before.plan else after.stops(name)
        shown = [message for message, _ in sorted(new)] + _differences(before, after, name)
        lines += [f"== {engine(name).title}", *shown] if shown else []
    return "\n".join(lines)


def _differences(before: State, after: State, name: str) -> list[str]:
    if before.plan is None or after.files(name) is None:
        return []
    (read, *old), (read_now, *new) = before.files(name), after.files(name)
    old, new = dict(old), dict(new)
    shown = [f"reads {file.path}" for file in read_now if file not in read]
    for file in sorted(old.keys() | new.keys()):
        lines = difflib.unified_diff(old.get(file, "").splitlines(), new.get(file, "").splitlines(), n=0, lineterm="")
        changed = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
        if changed and file.endswith(".go"):  # of the plugin, which is there whole or not at all
            changed = [f"{changed[0][0]}{len(changed)} lines"]
        shown += [file, *changed] if changed else []
    return shown


@pytest.mark.parametrize("field", by_field())
def test_field(field: str, update_golden: bool) -> None:
    file, new = HERE / f"{field}.diff", "\n\n".join(map(told, by_field()[field])) + "\n"
    if update_golden:
        HERE.mkdir(exist_ok=True)
        file.write_text(new, encoding="utf-8")
    assert file.is_file(), "no golden file; run make golden and read it"
    assert new == file.read_text(encoding="utf-8"), f"{file.name} changed; run make golden and read the diff"


def test_no_file_is_left_of_a_field_that_is_gone() -> None:
    assert {path.stem for path in HERE.glob("*.diff")} == set(by_field())
