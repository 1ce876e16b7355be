"""The YAML printer writes what a YAML reader gives back, and knows the origin of every line."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines.document import Tagged, dump

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
