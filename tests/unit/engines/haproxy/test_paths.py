"""Targets that no rule looks at a second time are those that every rule would let pass."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines.haproxy.paths import PLAIN, STRICT

PIECES = (
    "/",
    "a",
    ".",
    "..",
    "%",
    "%20",
    "%2e",
    "%2F",
    "%C3",
    "%41",
    "%zz",
    "?",
    "=",
    "[",
    "#",
    "\\",
    "'",
    '"',
    "\x80",
    " ",
)


def is_plain(target: str) -> bool:
    return re.search(PLAIN, target) is not None


@pytest.mark.parametrize("target", ["/", "/a", "/a/", "/a/b.css", "/a%20b/%C3%A9?q=%2F//..&[]=", "/it's;v=1", "/a?"])
def test_what_most_requests_ask_for(target: str) -> None:
    assert is_plain(target)


@pytest.mark.parametrize(
    "target", ["", "a", "?a", "//", "/a//b", "/.", "/a/../b", "/.well-known/x", "/%2e", "/a%2Fb", "/%", "*"]
)
def test_what_the_rules_look_at(target: str) -> None:
    assert not is_plain(target)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map(lambda pieces: "/" + "".join(pieces)))
def test_nothing_plain_is_refused(target: str) -> None:
    if is_plain(target):
        assert not re.search(r"[^]!$&()*+,./0-9:;=?@A-Z_a-z~%['-]", target)
        assert not re.search(STRICT, target.partition("?")[0])
