"""`lbgen fmt`: the same plan, every comment, and nothing more to do the second time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import lbgen
from lbgen.diagnostics import LbgenError
from lbgen.spec.formatting import format_yaml
from lbgen.spec.load import load, load_bytes
from tests.property.test_load_dump import topologies

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*/topology.yaml"))
words = st.text(st.sampled_from("abc :#{}[]'\"&*-|"), max_size=12)


def plan_of(text: str, folder: Path) -> Plan:
    plan = lbgen.plan(load_bytes(text.encode(), "x.yaml", folder))
    return replace(plan, uses=(), spans=())


def with_comments(text: str, drawn: list[tuple[int, bool, str]]) -> tuple[str, list[str]]:
    """Put comments between lines and at the ends of lines that hold no quotes, braces or blocks."""
    lines = text.split("\n")
    plain = {n for n, line in enumerate(lines) if line.strip() and not set(line) & set("\"'{}[]|>\\")}
    ends = {n for n, line in enumerate(lines) if n in plain and line.rstrip().endswith(":")}
    for at, alone, word in drawn:
        number = at % len(lines)
        comment = f"# {word}".rstrip()
        if alone and number in ends:
            lines[number] = f"{' ' * (at % 5)}{comment}\n{lines[number]}"
        elif not alone and number in ends and "#" not in lines[number]:
            lines[number] += f" {comment}"
    made = "\n".join(lines)
    return made, sorted(part[part.index("# ") :].rstrip() for part in made.split("\n") if "# " in part)


@settings(max_examples=60)
@given(
    topologies,
    st.integers(2, 6),
    st.sampled_from([None, False]),
    st.sampled_from([40, 90, 1000]),
    st.lists(st.tuples(st.integers(0, 500), st.booleans(), words), max_size=8),
)
def test_a_formatted_topology_is_the_same(
    data: dict[str, Any], indent: int, flow: bool | None, width: int, drawn: list[tuple[int, bool, str]]
) -> None:
    data.pop("engines", None)  # its text holds a `# ` that is no comment
    written = yaml.safe_dump(data, indent=indent, default_flow_style=flow, width=width, sort_keys=False)
    assume("# " not in written)  # a text that holds what is looked for below
    text, comments = with_comments(written.replace("$", "$$"), drawn)  # in a file, $ begins a variable
    try:
        before = load_bytes(text.encode(), "x.yaml", Path())
    except LbgenError:
        return  # a quoted text went over several lines, and a comment came between
    once = format_yaml(text.encode(), "x.yaml")
    assert load_bytes(once.encode(), "x.yaml", Path()).model == before.model == load(data).model
    assert sorted(line[line.index("# ") :] for line in once.split("\n") if "# " in line) == comments
    assert format_yaml(once.encode(), "x.yaml") == once


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_written_otherwise_is_the_same_plan(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if "tiers:" in text:
        assert format_yaml(text.encode(), "x") == text
        return
    plan = plan_of(text, path.parent)
    for flow, indent in ((None, 2), (False, 5), (True, 2)):
        other = yaml.dump(yaml.load(text, yaml.BaseLoader), Dumper=yaml.Dumper, default_flow_style=flow, indent=indent)  # noqa: S506
        once = format_yaml(other.encode(), "x")
        assert format_yaml(once.encode(), "x") == once
        assert yaml.load(once, yaml.BaseLoader) == yaml.load(other, yaml.BaseLoader) == yaml.load(text, yaml.BaseLoader)  # noqa: S506
    loose = text.replace("{ ", "{").replace(" }", "}").replace("\n\n", "\n\n\n").replace(": {", ":   {")
    assert format_yaml(loose.encode(), "x") == text
    assert plan_of(loose, path.parent) == plan
