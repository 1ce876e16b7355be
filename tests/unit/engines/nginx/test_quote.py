"""nginx: quoting."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines.nginx import strings as quote

texts = st.text(st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from('"\\$${}\n\t;#'), max_size=60)


def read(token: str) -> str:
    """What nginx makes of a token in double quotes."""
    assert token[0] == token[-1] == '"'
    out = re.sub(r'\\(["\'\\tn])', lambda m: {"t": "\t", "n": "\n"}.get(m[1], m[1]), token[1:-1])
    return out.replace("${dollar}", "$")


@given(texts)
def test_text_comes_back(text):
    assert read(f'"{quote.part(text)}"') == text


@given(texts)
def test_word_comes_back(text):
    quoted = quote.word(text)
    assert quoted == text if not quoted.startswith('"') else read(quoted) == text or "${dollar}" in text


@given(st.text(max_size=400))
def test_pieces_make_up_the_whole(text):
    parts = quote.pieces(text, 40)
    assert "".join(parts) == text
    assert all(quote.size(part) <= 40 for part in parts)


@pytest.mark.parametrize(
    ("key", "quoted"), [("default", '"\\default"'), ("~x", '"\\~x"'), ("api-v1", "api-v1"), ("", '""')]
)
def test_keys_that_maps_would_take_for_words_of_their_own(key, quoted):
    assert quote.key(key) == quoted


@pytest.mark.parametrize("text", ['a"b', "a\\\\b", "é", "a\nb"])
def test_regex_that_quoting_would_change(text):
    with pytest.raises(ValueError, match="quoting"):
        quote.regex(text)
