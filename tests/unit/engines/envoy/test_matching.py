"""Envoy's patterns against the oracle's reading of the same values."""

from __future__ import annotations

import re2
from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines.envoy.matching import escape_path, match_path, match_value
from lbgen.plan.conditions import Exact, Header, Operator, Present, Query, Regex
from lbgen.plan.path_conditions import ExactPath, PrefixPath
from lbgen.plan.request import Request, parse_request, to_wire

REGEXES = ("[0-9]+", "a|b", "a.*", ".+", "(x|y)z?", "[^a]+", "(?i)ab?", "a{1,2}%", "[+-.]x", r"\W\d", "^a$|^b$", "é?")
VALUES = st.one_of(
    st.just(Present()),
    st.sampled_from(REGEXES[:-1]).map(lambda text: Regex(text)),
    st.sampled_from(("a", "%", "%41", "100%", "a b", "a&b=c", "é", "%é", "+", "%a", "日")).map(
        lambda text: Exact(text)
    ),
)


def header_matches(wanted: Operator, raw: str) -> bool:
    """What the matcher of a header says to its raw value."""
    _, asked = match_value(Header("x-a"), wanted, "x-a")
    return matches(asked["string_match"], raw)


def holds_in_list(wanted: Operator, *lines: str) -> bool:
    headers = (("Host", "h"), *(("x-a", line) for line in lines))
    return Header("x-a").holds(wanted, parse_request(Request("GET", "/", headers)))


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
def test_query_values_are_compared_decoded(wanted: Operator, parts: list[str]) -> None:
    raw = "".join(parts)
    request = parse_request(Request("GET", f"/?q={raw}", (("Host", "h"),)))
    value = request.parameter("q")
    assert value is not None
    found = matches(match_value(Query("q"), wanted, "q")[1]["string_match"], raw)
    broken = re2.search("%(?:[^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$)", raw) is not None
    if broken:
        assert not found or wanted.accepts(value)  # a broken escape matches nothing
    else:
        assert found == wanted.accepts(value)


@given(
    VALUES,
    st.lists(st.sampled_from(("a", "b", "a b", "a,b", "x, 1", "", "1", "é", "z,a")), min_size=1, max_size=1),
)
def test_a_list_holds_an_element(wanted: Operator, lines: list[str]) -> None:
    lines = [to_wire(line) for line in lines]
    joined = ",".join(lines)  # as Envoy hands them over
    expected = holds_in_list(wanted, *(line.replace(",", ", ").replace(",  ", ", ") for line in lines))
    if isinstance(wanted, Regex) and " " not in joined and expected != header_matches(wanted, joined):
        # The one thing that cannot be told: whether a blank follows a comma.
        assert holds_in_list(wanted, joined) != expected
    elif not isinstance(wanted, Regex):
        assert header_matches(wanted, joined) == expected


def test_a_path_matches_in_either_hex_case() -> None:
    pattern = escape_path("/caf%C3%A9/a.b")
    assert re2.fullmatch(pattern, "/caf%c3%A9/a.b")
    assert not re2.fullmatch(pattern, "/caf%c3%A9/axb")
    assert not re2.fullmatch(pattern, "/CAF%C3%A9/a.b")


def test_plain_paths_need_no_regex() -> None:
    assert match_path(ExactPath("/a")) == {"path": "/a"}
    assert match_path(PrefixPath("/a")) == {"path_separated_prefix": "/a"}
    assert match_path(PrefixPath("/")) == {"prefix": "/"}
