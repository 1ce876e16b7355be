"""No field is ignored in silence: set, it changes what is rendered, or a finding or a verdict says that it does not.

The fields come from the models of the spec, so a new one fails here until it has a value (`values.yaml`). What holds
anyway is listed with the reason in `holds.yaml`. Nothing is started.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from functools import lru_cache

import pytest
import yaml
from msgspec.structs import replace

import lbgen
from fields.fields import CONTEXTS, OBJECTS, VALUES, Change, base, changes, read, values
from lbgen.diagnostics import LbgenError, Severity
from lbgen.engines.api import Level, engines
from lbgen.engines.rendered import render_with
from lbgen.engines.verdicts import answers, judge
from lbgen.plan.resolve import findings, plan
from lbgen.spec.load import load

IDLE = {"LB288", "LB289", "LB251", "LB254"}  # advice that nothing comes of a field
HOLDS = read("holds")


class State:
    """What lbgen says of a topology, and what each engine gets."""

    def __init__(self, text: str) -> None:
        self.plan = None
        try:
            topology = lbgen.load(json.loads(text))
            every = findings(topology)
            self.plan = None if any(d.severity is Severity.ERROR for d in every) else plan(topology)
        except LbgenError as error:
            every = error.diagnostics
        self.found = frozenset((d.code, d.field) for d in every if d.severity is Severity.ERROR or d.code in IDLE)
        self._stops, self._said, self._files = {}, {}, {}

    @property
    def alike(self):
        return None if self.plan is None else replace(self.plan, uses=(), spans=())

    def stops(self, name):
        """What stops the engine unless it is accepted."""
        if name not in self._stops:
            engine = engines()[name]
            self._stops[name] = frozenset((d.message, d.field) for d in judge(self.plan, engine, engine.versions[0])[1])
        return self._stops[name]

    def said(self, name):
        """The fields of which `explain` says that the engine differs, whether that stops anything or not."""
        if name not in self._said:
            engine = engines()[name]
            every = answers(self.plan, engine, engine.versions[0])
            differs = (x for x in every if x.verdict.level in (Level.HABIT, Level.APPROXIMATE))
            self._said[name] = frozenset(field for x in differs for field in x.fields)
        return self._said[name]

    def files(self, name):
        """What the engine gets when all that can be accepted is; None when it is refused."""
        if name not in self._files:
            engine = engines()[name]
            version = engine.versions[0]
            self._files[name] = None
            if not (self.stops(name) and judge(self.plan, engine, version, ("all",))[1]):
                made = render_with(engine, self.plan, version, ("all",))
                self._files[name] = (made.copies, *made.items())
        return self._files[name]


@lru_cache(maxsize=64)
def state(text):
    return State(text)


def came_of(change: Change, name: str) -> str:
    """What setting the field comes to on an engine; "" = nothing."""
    before, after = state(json.dumps(change.before)), state(json.dumps(change.after))
    if after.found - before.found or change.under(field for _, field in after.found):
        return "finding"
    if before.plan is None or before.files(name) is None:
        return "stopped before"
    if after.stops(name) - before.stops(name) or change.under(field for _, field in after.stops(name)):
        return "verdict"
    if change.within(before.said(name) | after.said(name)):
        return "said"
    return "rendered" if after.files(name) != before.files(name) else ""


def is_default(change: Change) -> bool:
    """Whether the plan is what it was."""
    return state(json.dumps(change.before)).alike == state(json.dumps(change.after)).alike


def held(entry, context: str, name: str, change: Change) -> bool:
    return (
        change.name == entry["field"]
        and fnmatchcase(context, entry.get("in", "*"))
        and name in entry.get("engines", [name])
        and ("value" not in entry or entry["value"] == change.value)
    )


@pytest.mark.parametrize("context", CONTEXTS)
def test_no_field_is_ignored(context):
    silent, works = [], set()
    for change in changes(context):
        for name in engines():
            if came_of(change, name):
                works.add((name, change.path))
            elif not any(held(entry, context, name, change) for entry in HOLDS):
                silent.append((name, change))
    # A value that leaves the plan as it was is the default, if another value changes something.
    left = [f"{n} {c.path}: {c.value!r}" for n, c in silent if (n, c.path) not in works or not is_default(c)]
    assert not left, "\n".join(left)


@pytest.mark.parametrize("entry", HOLDS, ids=lambda entry: f"{entry['field']} {entry.get('in', '')}".strip())
def test_what_holds_anyway_has_to_be_listed(entry):
    assert entry["why"]
    assert any(
        held(entry, context, name, change) and not came_of(change, name)
        for context in CONTEXTS
        if fnmatchcase(context, entry.get("in", "*"))
        for change in changes(context)
        for name in engines()
        if change.name == entry["field"]
    )


def test_no_value_is_of_a_field_that_is_gone():
    seen = {change.name for context in CONTEXTS for change in changes(context)}
    unreached = {f"{model}.{key}" for model, keys in VALUES.items() for key in keys} - seen
    # Set as they are in every context.
    assert unreached == {"TopologyModel.version", "TopologyModel.engines", "EngineBlock.version"}


def test_engine_blocks():
    """What is said to one engine; the places of its verbatim text: tests/engines/test_verbatim.py."""
    for name, engine in engines().items():
        for version in engine.versions:
            data = base("l4-tcp") | {"engines": {name: {"version": version}}}
            assert lbgen.render(lbgen.load(data), engine=name, accept=("all",)).version == version
        said = lbgen.plan(lbgen.load(base("l4-tcp") | {"engines": {name: {"forwarding": "nat"}}}))
        refused = f"engines.{name}.forwarding" in {d.field for d in judge(said, engine, engine.versions[0])[1]}
        assert refused == (engine.verdict("engines.forwarding.direct", engine.versions[0]).level is Level.REFUSED)
        said = lbgen.plan(lbgen.load(base("l4-tcp") | {"engines": {name: {"device": "eth0"}}}))
        assert f"engines.{name}.device" in {d.field for d in judge(said, engine, engine.versions[0])[1]}


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_profile_says_what_the_topology_would(context, tmp_path):
    """A top-level field means the same in both places; in a profile it is no finding that nothing uses it."""
    (tmp_path / "empty.yaml").write_text("{}\n")
    own = base(context) | {"profile": str(tmp_path / "empty.yaml")}
    for key in OBJECTS["top"].model_fields:
        if key in ("version", "name", "profile", "listeners", "pools", "routes", "engines"):
            continue
        for value in values(OBJECTS["top"], key):
            (tmp_path / "profile.yaml").write_text(yaml.safe_dump({key: value}))
            try:
                said = load(own | {key: value})
            except LbgenError:
                continue
            under = load(base(context) | {"profile": str(tmp_path / "profile.yaml")})
            if any(d.severity is Severity.ERROR for d in findings(said)):
                continue
            assert replace(plan(said), uses=(), spans=()) == replace(plan(under), uses=(), spans=()), (key, value)
            assert "LB288" not in {d.code for d in findings(under)}
