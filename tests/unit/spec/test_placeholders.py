"""Which braces of a text are placeholders."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.spec.placeholders import Mention, has_placeholder, split_text

PARTS = {
    "plain": ["plain"],
    "": [],
    "{client_ip}": [Mention("client_ip")],
    "a{host}b{1}": ["a", Mention("host"), "b", Mention("1")],
    "{header.X-User}{cookie.a_b}": [Mention("header.X-User"), Mention("cookie.a_b")],
    "{{host}}": ["{host}"],
    "x{{host}}{path}": ["x{host}", Mention("path")],
    '{"ip":"{client_ip}","a":{"b":1}}': ['{"ip":"', Mention("client_ip"), '","a":{"b":1}}'],
    "{} { host } {Host} {{ x }} {0} {100} {a b} {-}": ["{} { host } {Host} {{ x }} {0} {100} {a b} {-}"],
    "${host} %{host} $${host}": ["${host} %{host} $${host}"],
    "{": ["{"],
    "}}{host}{{": ["}}", Mention("host"), "{{"],
}


@pytest.mark.parametrize("text", PARTS)
def test_parts_of_a_text(text: str) -> None:
    assert list(split_text(text)) == PARTS[text]
    assert has_placeholder(text) == any(isinstance(part, Mention) for part in PARTS[text])


@given(st.text("{}ab.1$% ", max_size=12))
def test_the_same_text_comes_back(text: str) -> None:
    """What is no placeholder stays, but for doubled braces around a name."""
    parts = list(split_text(text))
    written = "".join(part if isinstance(part, str) else f"{{{part.name}}}" for part in parts)
    assert written == text or "{{" in text
    assert not any(isinstance(a, str) and isinstance(b, str) for a, b in pairwise(parts))


@given(st.text(st.characters(exclude_characters="{", codec="utf-8"), max_size=20))
def test_a_text_without_an_opening_brace_stays(text: str) -> None:
    assert list(split_text(text)) == ([text] if text else [])
