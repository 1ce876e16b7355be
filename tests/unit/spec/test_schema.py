"""The JSON Schema accepts what `load` accepts, refuses what a schema can refuse, and describes every property."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from lbgen import resources
from lbgen.conformance.case import case_files
from lbgen.diagnostics import LbgenError
from lbgen.plan import resolve
from lbgen.spec.load import load
from lbgen.spec.schema import schema
from lbgen.spec.source import read_file, read_text
from tests.topologies.draw import topology as random_topology
from tests.unit.spec.test_load import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
ERRORS = ROOT / "tests/errors"
SCHEMA = schema()
CHECK = Draft202012Validator(SCHEMA)
# Findings of one value that no JSON Schema can have.
INEXPRESSIBLE = {
    "LB102-header-in-two-cases": "a schema compares keys with patterns, not with each other",
    "LB110-profile-file": "whether a file exists",
    "LB132-not-set": "whether a variable is set",
    "LB133-no-name": "a text with ${ is a text",
    "LB134-listeners-of-a-team": "what another file holds",
    "LB117-login": "which part of an address a client can choose",
    "LB118-look-ahead": "the grammar of regular expressions is not a regular one",
    "LB118-vertical-space": "the grammar of regular expressions is not a regular one",
    "LB122-host-bits": "bits of an address are arithmetic",
    "LB131-names-another": "the text of another file",
}


def refused(data: object) -> list[str]:
    """What the schema says against data, the innermost first."""
    found = sorted(CHECK.iter_errors(data), key=lambda error: -len(error.absolute_path))
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def topologies() -> Iterator[tuple[str, Any]]:
    for path in [*ROOT.glob("examples/*/topology.yaml"), *(ROOT / "lbgen/spec/starters").glob("*.yaml")]:
        yield str(path.relative_to(ROOT)), read_file(path).data
    yield "everything", read_text(EVERYTHING, "everything").data
    for path in sorted(ERRORS.glob("*.yaml")):
        try:
            found = resolve.findings(load(path))
        except LbgenError:
            continue
        if any(d.code.startswith("LB1") for d in found):
            continue  # a value that only the plan judges, and the schema too
        yield f"errors/{path.name}", read_file(path).data
    whole = {"version": 1, "name": "x", "pools": {}, "routes": []}
    for path in sorted(resources.folder("profiles").glob("*.yaml")):
        yield f"profiles/{path.name}", {**read_file(path).data, **whole}
    for number in range(50):
        drawn = random_topology(random.Random(number), ("envoy", "haproxy", "nginx", "traefik"))
        yield f"random {number}", drawn


def test_it_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(("name", "data"), [pytest.param(n, d, id=n) for n, d in topologies()])
def test_it_accepts_what_load_accepts(name: str, data: Any) -> None:
    assert refused(data) == [], name


@pytest.mark.parametrize("file", case_files(), ids=lambda file: file.name)
def test_it_accepts_the_topologies_of_the_conformance_cases(file: Any) -> None:
    assert refused(file.topology) == []


@pytest.mark.parametrize("case", sorted(path.stem for path in ERRORS.glob("LB1*.yaml")))
def test_it_refuses_what_it_can(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ERRORS)
    try:
        data = read_file(Path(f"{case}.yaml")).data
    except LbgenError:
        return  # not YAML that lbgen reads: no data to check
    with pytest.raises(LbgenError):  # noqa: PT012  # either finds it
        found = resolve.findings(load(f"{case}.yaml"))
        raise LbgenError([d for d in found if d.severity == "error"])
    assert bool(refused(data)) == (case not in INEXPRESSIBLE), INEXPRESSIBLE.get(case)


def properties() -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Name, schema and whether it is required, of every property."""
    for model, node in {"topology": SCHEMA, **SCHEMA["$defs"]}.items():
        for whole in (node, *node.get("anyOf", ())):
            for name, prop in whole.get("properties", {}).items():
                yield f"{model}.{name}", prop, name in whole.get("required", ())


@pytest.mark.parametrize(("name", "prop", "required"), [pytest.param(*p, id=p[0]) for p in properties()])
def test_every_property_has_a_description_a_default_and_an_example(
    name: str, prop: dict[str, Any], required: bool
) -> None:
    text = prop.get("description", "")
    assert text, f"{name}: give its Field a description"
    said = required or "default" in prop or any(x in text for x in ("when left out", "no default", "needed"))
    assert said, f'{name}: say in its description what holds "when left out", or "no default"'
    assert prop.get("examples"), f"{name}: give its Field examples=[...]"
    check = Draft202012Validator({**prop, "$defs": SCHEMA["$defs"]})
    for value in (*prop["examples"], *([prop["default"]] if prop.get("default") else ())):
        assert not list(check.iter_errors(value)), (name, value)
