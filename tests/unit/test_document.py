"""The YAML printer writes what a YAML reader gives back, and knows the origin of every line."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines.document import Commented, Tagged, dump, write

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAF = st.none() | st.booleans() | st.integers() | TEXT
DATA = st.recursive(LEAF, lambda x: st.lists(x, max_size=4) | st.dictionaries(TEXT, x, max_size=4), max_leaves=20)


@given(st.dictionaries(TEXT, DATA, max_size=5))
def test_what_is_written_is_read_back(data):
    text, origins = dump(data, header="made by a test\n\n# twice")
    assert yaml.safe_load(text) == (data or {})
    assert len(origins) == len(text.splitlines()) or "\x85" in text


def test_lines_inherit_the_nearest_field():
    data = {"a": 1, "list": [Tagged("routes[0]", {"x": {"y": [1, 2]}}), Tagged("routes[1]", {"x": 2})]}
    text, origins = dump(data)
    assert list(zip(text.splitlines(), origins, strict=True)) == [
        ("a: 1", ""),
        ("list:", ""),
        ("  - x:", "routes[0]"),
        ('      "y":', "routes[0]"),
        ("        - 1", "routes[0]"),
        ("        - 2", "routes[0]"),
        ("  - x: 2", "routes[1]"),
    ]


def test_written_yaml_is_short_and_reads_back():
    rule = {"rule": "a && `b`", "n": [1, "2", {"k": None}]}
    data = {
        "global": {"a": True},
        "http": Commented("What\nfollows.", {"x": rule, "empty": {}}, apart=True),
        "long": {"first": "x" * 40, "second": ["y" * 40, "z" * 40]},
        "words": {f"Word{n}": "keep" for n in range(9)},
        "list": [{"a": "x" * 90, "b": "y" * 90}, "60s", "10.0.0.0/8", "on", "1", "/x", r"^a\.b$", "it's"],
    }
    text, origins = write(Tagged("top", data), "Header")
    assert len(origins) == text.count("\n")
    lines = text.splitlines()
    assert lines[:6] == ["# Header", "global: { a: true }", "", "# What", "# follows.", "http:"]
    assert '  x: { rule: "a && `b`", "n": [1, "2", { k: null }] }' in lines
    assert r"  - '^a\.b$'" in lines
    assert "  - 60s" in lines
    assert '  - "on"' in lines
    assert max(map(len, lines)) < 120
    assert yaml.safe_load(text) == {**data, "http": data["http"].value}


@given(st.dictionaries(TEXT, DATA, max_size=5), st.integers(20, 120))
def test_written_yaml_is_read_back(data, width):
    text, origins = write(data, "made by a test", width)
    assert yaml.safe_load(text) == (data or None)
    assert len(origins) == len(text.splitlines()) or "\x85" in text
