"""The YAML printer writes what a YAML reader gives back, and knows the origin of every line."""

from __future__ import annotations

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbgen.engines.document import Commented, Tagged, comment_on
from lbgen.engines.yaml_writer import dump

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAF = st.none() | st.booleans() | st.integers() | TEXT
DATA = st.recursive(LEAF, lambda x: st.lists(x, max_size=4) | st.dictionaries(TEXT, x, max_size=4), max_leaves=20)


slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine


@slow
@given(st.dictionaries(TEXT, DATA, max_size=5))
def test_what_is_written_is_read_back(data):
    text, origins = dump(data, header="made by a test\n\n# twice")
    assert yaml.safe_load(text) == (data or {})
    assert len(origins) == len(text.splitlines()) or "\x85" in text


@slow
@given(st.dictionaries(TEXT, DATA, max_size=5), st.integers(20, 120))
def test_any_width_is_read_back(data, width):
    assert yaml.safe_load(dump(data, width=width)[0]) == (data or {})


@slow
@given(st.lists(st.dictionaries(TEXT, DATA, max_size=3), max_size=5))
def test_anchors_change_nothing_that_is_read(data):
    repeated = {"a": [*data, {"name": "x" * 120}], "b": [*data, {"name": "x" * 120}]}
    text, _ = dump(repeated, anchors=True)
    assert yaml.safe_load(text) == repeated


def test_lines_inherit_the_nearest_field():
    long = "x" * 130
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


def test_a_collection_has_its_own_field():
    text, origins = dump({"list": Tagged("a", {"x": Tagged("b", {"y": 1}), "z": "w" * 100})})
    assert list(zip(text.splitlines(), origins, strict=True)) == [
        ("list:", "a"),
        ('  x: { "y": 1 }', "b"),
        (f"  z: {'w' * 100}", "a"),
    ]


def test_a_line_that_shows_one_more_field_alone_has_that():
    one, two = Tagged("b", {"n": 1}), Tagged("c", {"n": 2})
    assert dump({"x": {"y": Tagged("a", {"list": [one]})}})[1] == ("", "b")
    assert dump({"x": {"y": Tagged("a", {"list": [one, two]})}})[1] == ("", "a")


def test_a_section_with_sections_is_never_one_line():
    assert dump({"a": {"b": {"c": 1}}, "d": {"e": 1}})[0] == "a:\n  b: { c: 1 }\nd: { e: 1 }\n"


def test_many_words_share_lines():
    words = {f"Word{n}": "keep" for n in range(9)}
    text, origins = dump({"x": {"words": words}}, width=50)
    assert text.splitlines() == [
        "x:",
        "  words: {",
        "    Word0: keep, Word1: keep, Word2: keep,",
        "    Word3: keep, Word4: keep, Word5: keep,",
        "    Word6: keep, Word7: keep, Word8: keep",
        "  }",
    ]
    assert len(origins) == text.count("\n")
    assert yaml.safe_load(text) == {"x": {"words": words}}


def test_a_comment_may_stand_apart():
    text, origins = dump(
        Tagged("top", {"a": 1, "b": Commented("What\nfollows.", {"c": {"d": 1}}, apart=True)}), "Header"
    )
    assert text.splitlines() == ["# Header", "a: 1", "", "# What", "# follows.", "b:", "  c: { d: 1 }"]
    assert len(origins) == text.count("\n")


def test_comments_stand_above_their_lines():
    item = comment_on({"name": "x", "time": "60s"}, {"name": "why\nit is", "time": "long"})
    text, origins = dump({"list": [item, {"k": item}]})
    assert text.splitlines()[:6] == ["list:", "# why", "# it is", "- name: x", "  # long", "  time: 60s"]
    assert len(origins) == len(text.splitlines())


def test_what_occurs_twice_is_an_anchor_and_an_alias_below_its_comment():
    item = Commented("why", {"name": "a b", "x": "y" * 120})
    text, _ = dump({"list": [item, item]}, anchors=True)
    assert text.splitlines() == ["list:", "# why", "- &a-b", "  name: a b", f"  x: {'y' * 120}", "- *a-b"]


def test_a_text_of_several_lines_is_a_block():
    assert dump({"a": "b\n  c\n"})[0].splitlines() == ["a: |", "  b", "    c"]


def test_what_another_reader_may_take_for_no_text_is_quoted():
    texts = [
        "yes",
        "1.5",
        "1:30",
        "a: b",
        "",
        "-",
        "*",
        "10.0.0.1",
        "60s",
        "0.100s",
        "/a b",
        "1e3",
        "0x1f",
        ".5",
        "10.0.0.0/8",
        r"^a\.b$",
    ]
    written = [line.removeprefix("- ") for line in dump(texts, width=1)[0].splitlines()]
    assert [text for text, line in zip(texts, written, strict=True) if text == line] == [
        "10.0.0.1",
        "60s",
        "0.100s",
        "/a b",
        "10.0.0.0/8",
    ]


def test_back_slashes_stay_single():
    assert dump([r"^a\.b$", r"it's \."])[0] == "['^a\\.b$', \"it's \\\\.\"]\n"
