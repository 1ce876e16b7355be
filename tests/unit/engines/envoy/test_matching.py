"""Envoy's patterns against the oracle's reading of the same values."""

from __future__ import annotations

import re2
from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines.envoy.matching import escape_path, match_header, match_query
from lbgen.plan.matching import _holds, _holds_in_list, to_wire
from lbgen.plan.model import ValueKind, ValueMatch
from lbgen.plan.request import Request, parse_request

REGEXES = ("[0-9]+", "a|b", "a.*", ".+", "(x|y)z?", "[^a]+", "(?i)ab?", "a{1,2}%", "[+-.]x", r"\W\d", "^a$|^b$", "é?")
VALUES = st.one_of(
    st.just(ValueMatch(ValueKind.PRESENT)),
    st.sampled_from(REGEXES[:-1]).map(lambda text: ValueMatch(ValueKind.REGEX, text)),
    st.sampled_from(("a", "%", "%41", "100%", "a b", "a&b=c", "é", "%é", "+", "%a", "日")).map(
        lambda text: ValueMatch(ValueKind.EXACT, text)
    ),
)


def header_matches(wanted: ValueMatch, raw: str) -> bool:
    """What the matchers of a header say to its raw value."""
    asked = [each for each in match_header("x-a", wanted) if "present_match" not in each]
    return all(matches(each["string_match"], raw) != each.get("invert_match", False) for each in asked)


def matches(matcher: dict, raw: str) -> bool:
    """What a StringMatcher says to a raw value."""
    pattern = matcher["safe_regex"]["regex"]
    return re2.fullmatch(pattern, raw.encode("latin-1")) is not None


@given(
    VALUES,
    st.lists(
        st.sampled_from(("a", "%", "%41", "%4", "1", "%20", "%2541", "b", "%C3%A9", "%c3%a9", "+", "%61", "%26")),
        max_size=4,
    ),
)
def test_query_values_are_compared_decoded(wanted: ValueMatch, parts: list[str]) -> None:
    raw = "".join(parts)
    request = parse_request(Request("GET", f"/?q={raw}", (("Host", "h"),)))
    value = request.parameter("q")
    assert value is not None
    found = matches(match_query(wanted), raw)
    broken = re2.search("%(?:[^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$)", raw) is not None
    if broken:
        assert not found or _holds(wanted, value)  # a broken escape matches nothing
    else:
        assert found == _holds(wanted, value)


@given(
    VALUES.filter(lambda v: "," not in v.value),
    st.lists(st.sampled_from(("a", "b", "a b", "a,b", "x, 1", "", "1", "é", "z,a")), min_size=1, max_size=1),
)
def test_a_list_holds_an_element(wanted: ValueMatch, lines: list[str]) -> None:
    lines = [to_wire(line) for line in lines]
    joined = ",".join(lines)  # as Envoy hands them over
    expected = _holds_in_list(wanted, tuple(line.replace(",", ", ").replace(",  ", ", ") for line in lines))
    if wanted.kind is ValueKind.REGEX and " " not in joined and expected != header_matches(wanted, joined):
        # The one thing that cannot be told: whether a blank follows a comma.
        assert _holds_in_list(wanted, (joined,)) != expected
    elif wanted.kind is not ValueKind.REGEX:
        assert header_matches(wanted, joined) == expected


def test_a_path_matches_in_either_hex_case() -> None:
    pattern = escape_path("/caf%C3%A9/a.b")
    assert re2.fullmatch(pattern, "/caf%c3%A9/a.b")
    assert not re2.fullmatch(pattern, "/caf%c3%A9/axb")
    assert not re2.fullmatch(pattern, "/CAF%C3%A9/a.b")
