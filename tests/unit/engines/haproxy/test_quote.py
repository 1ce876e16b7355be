"""Quoting in haproxy.cfg, read back by a model of the tokenizer of HAProxy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines.haproxy.quote import Sample, argument, log_format, word

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"))


def read_back(line: str) -> list[str]:
    """The words HAProxy makes of a line: single quotes are literal, a backslash outside of them escapes."""
    words, current, quote, at = [], None, "", 0
    while at < len(line):
        char = line[at]
        if quote == "'" != char:
            current += char
        elif char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote, current = char, current or ""
        elif char == "\\":
            at += 1
            assert line[at] in "\\'\"n" or (quote and line[at] == "$"), f"HAProxy keeps the backslash of {line[at]}"
            current = (current or "") + {"n": "\n"}.get(line[at], line[at])
        elif quote:
            assert char != "$", "a variable begins"
            current += char
        elif char in " \t":
            if current is not None:
                words.append(current)
            current = None
        else:
            assert char not in '#"$', f"{char} is special outside of quotes"
            current = (current or "") + char
        at += 1
    return words + ([current] if current is not None else [])


@given(TEXTS)
def test_a_word_comes_back_and_is_one_word(text):
    assert read_back(word(text)) == [text]
    assert "\n" not in word(text)


def test_plain_words_stay_bare():
    assert word("text/plain") == "text/plain"
    assert word("max-age=60") == "max-age=60"
    assert word("") == "''"
    assert word("no-store, private") == "'no-store, private'"


def test_texts_that_single_quotes_cannot_hold_are_in_double_quotes():
    assert word("ok\n") == r'"ok\n"'
    assert (
        word('it\'s "$5"\\')
        == r"""
"it's \"\$5\"\\"
""".strip()
    )


def test_percent_is_doubled_in_literal_parts_only():
    assert log_format("100% ", Sample("src")) == "100%% %[src]"


def test_arguments_of_fetches():
    assert argument("x-a") == "x-a"
    assert argument("x'a") == '"x\'a"'
