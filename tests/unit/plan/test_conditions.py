"""What every condition says of itself: examples, what it implies, and that a saved plan has it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.plan.conditions import SUBJECTS, Condition, with_conditions
from lbgen.plan.model import Match
from lbgen.plan.path_conditions import PATHS, Path
from lbgen.plan.request import Draft, ParsedRequest, parse_request
from tests.support.strategies import MATCHES, NAMES, path_matches, paths, some_conditions, some_operators

KINDS = [(subject, operator) for subject in SUBJECTS for operator in subject.operators]
VALUES = st.lists(st.sampled_from(("", "1", "2", "a", "ab", "a b", "x,y", "1, a", "GET")), max_size=2)


def parsed(draft: Draft) -> ParsedRequest:
    return parse_request(draft.request("web"))


@pytest.mark.parametrize(("subject", "operator"), KINDS)
@given(data=st.data())
def test_examples_hold_and_some_neighbour_does_not(subject, operator, data) -> None:
    asked = data.draw(some_operators(subject, operator))
    condition = Condition(subject("n" if subject in NAMES else ""), asked)
    draft = Draft("GET", "h", "/")
    for example in asked.examples():
        hit = condition.subject.write(draft, () if example is None else (example,))
        assert condition.holds(parsed(hit))
        assert example != asked.examples()[0] or hit == with_conditions(draft, [condition])
        around = [parsed(condition.subject.write(hit, values)) for values in asked.neighbours(example)]
        missed = [each for each in around if not condition.holds(each)]
        assert missed
        assert all(condition.subject.title in condition.mismatch(each) for each in missed)


@given(st.sampled_from(SUBJECTS), st.data())
def test_what_is_implied_holds(subject, data) -> None:
    """The same name on both sides, so that they meet."""
    one, other = (data.draw(some_conditions(subject))[0] for _ in range(2))
    other = Condition(one.subject, other.operator)
    examples = [each for operator in (one.operator, other.operator) for each in operator.examples() if each]
    values = data.draw(VALUES if subject in NAMES else st.sampled_from(examples).map(lambda word: [word]))
    request = one.subject.write(Draft("GET", "h", "/"), values)
    if one.implies(other) and one.holds(parsed(request)):
        assert other.holds(parsed(request))


@given(path_matches(), path_matches(), paths())
def test_a_path_that_is_implied_covers(one: Path, other: Path, path: str) -> None:
    for each in (path, *one.examples()):
        request = parsed(Draft("GET", "h", each))
        if one.implies(other) and one.holds(request):
            assert other.holds(request)
        if one.holds(request):
            assert each.startswith(one.start)


@pytest.mark.parametrize("kind", PATHS)
def test_a_path_has_a_place_of_its_own(kind: type[Path]) -> None:
    assert kind("/a").place != kind("/b").place
    assert kind("/a").examples()[0] == "/a"


@given(MATCHES)
def test_a_match_is_saved(match: Match) -> None:
    assert msgspec.json.decode(msgspec.json.encode(match), type=Match) == match
