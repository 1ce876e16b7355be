"""Which collections get an anchor, and its name."""

from __future__ import annotations

from lbgen.engines.document import Tagged
from lbgen.engines.yaml_writer import find_repeats


def names(data: object, worth: int = 10) -> list[str]:
    return sorted(set(find_repeats(data, worth).values()))


def test_equal_long_collections_share_a_name() -> None:
    one, other = {"name": "my filter", "x": "long enough"}, {"name": "my filter", "x": "long enough"}
    found = find_repeats([one, other], 10)
    assert found[id(one)] == found[id(other)] == "my-filter"


def test_short_collections_are_written_again() -> None:
    assert names([{"a": 1}, {"a": 1}]) == []


def test_what_is_inside_a_repeated_collection_needs_no_anchor_of_its_own() -> None:
    part = {"limits": {"most": 1_000_000_000}}
    assert names([part, part]) == ["shared"]
    assert names({"p": part, "q": part, "r": {"limits": {"most": 1_000_000_000}, "more": 1}}) == ["limits", "p"]


def test_different_collections_of_one_name_have_different_anchors() -> None:
    data = [{"name": "api", "n": n, "x": "y" * 20} for n in (1, 2)]
    assert names([*data, *data]) == ["api", "api-2"]


def test_the_same_data_of_two_fields_are_written_twice() -> None:
    assert names([Tagged(field, {"x": "y" * 20}) for field in ("routes[0]", "routes[1]")]) == []
