"""The YAML printer writes what a YAML reader gives back, and knows the origin of every line."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines.document import Tagged
from lbgen.engines.yaml_writer import dump, noted

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAF = st.none() | st.booleans() | st.integers() | TEXT
DATA = st.recursive(LEAF, lambda x: st.lists(x, max_size=4) | st.dictionaries(TEXT, x, max_size=4), max_leaves=20)


@given(st.dictionaries(TEXT, DATA, max_size=5))
def test_what_is_written_is_read_back(data):
    text, origins = dump(data, header="made by a test\n\n# twice")
    assert yaml.safe_load(text) == (data or {})
    assert len(origins) == len(text.splitlines()) or "\x85" in text


@given(st.lists(st.dictionaries(TEXT, DATA, max_size=3), max_size=5))
def test_anchors_change_nothing_that_is_read(data):
    repeated = {"a": [*data, {"name": "x" * 120}], "b": [*data, {"name": "x" * 120}]}
    text, _ = dump(repeated, anchors=True)
    assert yaml.safe_load(text) == repeated


def test_lines_inherit_the_nearest_field():
    long = "x" * 110
    data = {"a": 1, "list": [Tagged("routes[0]", {"x": {"y": [1, long]}}), Tagged("routes[1]", {"x": 2})]}
    text, origins = dump(data)
    assert list(zip(text.splitlines(), origins, strict=True)) == [
        ("a: 1", ""),
        ("list:", ""),
        ("- x:", "routes[0]"),
        ('    "y":', "routes[0]"),
        ("    - 1", "routes[0]"),
        (f"    - {long}", "routes[0]"),
        ("- { x: 2 }", "routes[1]"),
    ]


def test_a_line_shows_one_field_only():
    text, origins = dump({"list": Tagged("a", {"x": Tagged("b", {"y": 1})})})
    assert list(zip(text.splitlines(), origins, strict=True)) == [("list:", "a"), ('  x: { "y": 1 }', "b")]


def test_comments_stand_above_their_lines():
    item = noted({"name": "x", "time": "60s"}, name="why\nit is", time="long")
    text, origins = dump({"list": [item, {"k": item}]})
    assert text.splitlines()[:6] == ["list:", "# why", "# it is", "- name: x", "  # long", "  time: 60s"]
    assert len(origins) == len(text.splitlines())


def test_what_occurs_twice_is_an_anchor_and_an_alias_below_its_comment():
    item = noted({"name": "a b", "x": "y" * 120}, name="why")
    text, _ = dump({"list": [item, item]}, anchors=True)
    assert text.splitlines() == ["list:", "# why", "- &a-b", "  name: a b", f"  x: {'y' * 120}", "- *a-b"]


def test_a_text_of_several_lines_is_a_block():
    assert dump({"a": "b\n  c\n"})[0].splitlines() == ["a: |", "  b", "    c"]


def test_what_another_reader_may_take_for_no_text_is_quoted():
    texts = ["yes", "1.5", "1:30", "a: b", "", "-", "*", "10.0.0.1", "60s", "0.100s", "/a b", "1e3", "0x1f", ".5"]
    written = [line.removeprefix("- ") for line in dump([f"{text}" for text in texts])[0].strip("[]\n").split(", ")]
    assert [text for text, line in zip(texts, written, strict=True) if text == line] == [
        "10.0.0.1",
        "60s",
        "0.100s",
        "/a b",
    ]
