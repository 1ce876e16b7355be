"""Paths that are refused, as an endpoint could read them in another way."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.haproxy.listeners import BROKEN, STRICT, refused_regex
from lbgen.plan.policy import Paths, PathsMode

WELL_FORMED = ["/", "/a", "/a/", "/a/b.css", "/a%20b/%C3%A9", "/it's;v=1", "/.well-known/x", "/a..b", '/a|b{c}^`d<e>"']
AMBIGUOUS = ["//", "/a//b", "/.", "/a/../b", "/a/..", "/%2e", "/a%2Fb", "/%", "/%zz", "/a\\b", "/%5C", "/%00", "/%41"]


@pytest.mark.parametrize("path", WELL_FORMED)
def test_what_clients_send_passes(path: str) -> None:
    for mode in PathsMode:
        assert not re.search(refused_regex(Paths(mode)), path)
    assert not re.search(BROKEN, path)


@pytest.mark.parametrize("path", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(path: str) -> None:
    assert re.search(STRICT, path)


@pytest.mark.parametrize(
    ("paths", "passes", "refused"),
    [
        (Paths(empty_segments=True), ["/a//b"], ["/a%2Fb", "/%41", "/a/../b", "/a\\b"]),
        (Paths(encoded_slash=True), ["/a%2Fb"], ["/a//b", "/a%2F../b", "/%5C"]),
        (Paths(encoded_unreserved=True), ["/%41"], ["/%2e%2E/b", "/a%2Fb"]),
        (Paths(PathsMode.VERBATIM), ["/a//b", "/a%2Fb"], ["/%", "/%00", "/a\\b"]),
    ],
)
def test_exceptions_let_only_their_own_pass(paths: Paths, passes: list[str], refused: list[str]) -> None:
    pattern = refused_regex(paths)
    assert [path for path in passes if re.search(pattern, path)] == []
    assert [path for path in refused if not re.search(pattern, path)] == []
