"""The first rule of a listener refuses the paths that the contract calls ambiguous, and no other."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lbgen.engines.aws.paths import AMBIGUOUS
from lbgen.plan.paths import PathError, accept_target
from lbgen.plan.policy import Paths
from tests.unit.engines.aws.templates import plan_of, resources

# Printable ASCII without a blank and `?`, dense in what matters.
PATHS = st.lists(
    st.sampled_from(["/", "//", ".", "..", "%", "%2", "%2F", "%2e", "%5C", "%61", "%20", "%C3", "%z", "\\", "#", "a"])
    | st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="?"),
    max_size=12,
).map(lambda parts: "/" + "".join(parts))


@given(PATHS)
@example("/a/..")
@example("/a%2")
@example("/a%7")
@example("/...")
@example("/a//")
def test_a_path_is_refused_where_it_is_ambiguous(path: str) -> None:
    try:
        accept_target(path, Paths())
        ambiguous = False
    except PathError:
        ambiguous = True
    assert any(re.search(pattern, path) for pattern in AMBIGUOUS) is ambiguous


@pytest.mark.parametrize("pattern", AMBIGUOUS)
def test_patterns_are_within_the_limits(pattern: str) -> None:
    assert len(pattern) <= 128
    assert len(AMBIGUOUS) <= 3
    assert not re.search(r"\(\?|\\[1-9]", pattern), "no lookarounds and references"


def test_it_is_the_first_rule() -> None:
    rules = resources(plan_of(), "ListenerRule")
    (first,) = (each for each in rules.values() if each["Priority"] == 1)
    assert first["Conditions"] == [{"Field": "path-pattern", "PathPatternConfig": {"RegexValues": list(AMBIGUOUS)}}]
    assert first["Actions"] == [
        {"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "400", "ContentType": "text/plain"}}
    ]
