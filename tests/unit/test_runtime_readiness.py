"""Requests made up for routes."""

from __future__ import annotations

import re

import pytest

from lbgen.runtime.sample import sample


@pytest.mark.parametrize(
    "pattern",
    [
        "/v[0-9]+/x",
        "/(a|b)/c?",
        "/[^/]+",
        r"/\d{3}-\w+\.html",
        "/(?:x|y){2,3}",
        "(?i)abc",
        "a.*b",
        "^/anchored$",
        r"[^a0]",
        r"/\S+/\D",
        "",
    ],
)
def test_a_sample_matches(pattern):
    text = sample(pattern)
    assert text is not None
    assert re.fullmatch(pattern, text)


@pytest.mark.parametrize("pattern", ["(", r"\pN", r"(?=x)y"])
def test_no_sample_is_none(pattern):
    assert sample(pattern) is None
