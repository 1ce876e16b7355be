"""Regexes over raw and encoded text agree with RE2 over the value they stand for."""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines import escapes
from lbgen.plan.regex import matches_whole

ATOMS = ["a", "b", "%", "\\.", "&", ".", "[a-c]", "[^a]", "[^/%]", "\\d", "\\w", "\\W", "[[:upper:]-]", "\\x41", ","]
atoms = st.sampled_from(ATOMS)
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda p: f"(?:{p[0]}|{p[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])).map(lambda p: f"({p[0]}){p[1]}"),
    ),
    max_leaves=4,
)
values = st.text(alphabet="abAZ09%.&/-é€, +=", max_size=6)


def matches(regex: str, text: bytes) -> bool:
    return re.fullmatch(regex.encode("latin-1"), text, re.DOTALL) is not None


@given(patterns, values, st.booleans())
def test_plain_agrees_with_re2(pattern, value, fold):
    pattern = f"(?i){pattern}" if fold else pattern
    regex = escapes.group(escapes.parse(pattern), escapes.plain())
    assert matches(regex, value.encode()) == matches_whole(pattern, value.encode().decode("latin-1"))


@given(patterns, values, st.sets(st.integers(0, 255)), st.booleans())
def test_encoded_agrees_with_re2_on_the_decoded_value(pattern, value, escaped, lower):
    raw = "".join(
        (f"%{b:02x}" if lower else f"%{b:02X}") if b in escaped or not (33 <= b < 127) or chr(b) in "&%" else chr(b)
        for b in value.encode()
    )
    decoded = unquote_to_bytes(raw).decode("latin-1")
    assert matches(escapes.encoded_regex(pattern), raw.encode()) == matches_whole(pattern, decoded)


@pytest.mark.parametrize("raw", ["%", "%z", "a%zz", "%%41", "%4", "%2541"])
def test_a_broken_escape_stands_for_itself(raw):
    decoded = unquote_to_bytes(raw).decode("latin-1")
    assert matches(escapes.encoded_regex(".*"), raw.encode())
    assert matches(escapes.encoded_literal(decoded), raw.encode())


@given(values, values)
def test_encoded_literal(text, other):
    raw = quote_from_bytes(other.encode()).encode()
    assert matches(escapes.encoded_literal(text), raw) == (text == other)


@pytest.mark.parametrize("sent", ["/caf%C3%A9(1)", "/caf%c3%a9(1)"])
def test_path_literal_ignores_the_case_of_hex_digits_only(sent):
    regex = escapes.path_literal("/caf%C3%A9(1)")
    assert matches(regex, sent.encode())
    assert not matches(regex, sent.upper().encode())


def test_what_a_regex_may_hold():
    node = escapes.parse("[^a]+(,|b)")
    assert escapes.may_hold(node, ",")
    assert not escapes.may_hold(escapes.parse("[ab]+"), ",")
    assert escapes.has_boundary(escapes.parse("a(\\b)?"))
    assert not escapes.has_boundary(node)


@pytest.mark.parametrize("pattern", ["(", "[a", "a)", "\\"])
def test_what_is_no_regex(pattern):
    with pytest.raises((ValueError, IndexError)):
        escapes.parse(pattern)


def test_words_are_left_readable():
    assert escapes.group(escapes.parse("(?i)v[0-9]+/x"), escapes.plain()) == "[Vv][0-9]+/[Xx]"
    assert escapes.encoded_literal("a b") == "(?:a|%61)(?:%20)(?:b|%62)"
