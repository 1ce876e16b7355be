"""Which targets Envoy accepts, by the options of `paths`."""

from __future__ import annotations

import re
from itertools import product

import pytest

from lbgen.engines.envoy.paths import AUTHORITY, build_target_pattern
from lbgen.plan import request
from lbgen.plan.policy import Paths, PathsMode


@pytest.mark.parametrize(
    ("paths", "target", "let_in"),
    [
        (Paths(), "/a//b", False),
        (Paths(empty_segments=True), "/a//b", True),
        (Paths(empty_segments=True), "/a//../b", False),
        (Paths(), "/a%2fb", False),
        (Paths(encoded_slash=True), "/a%2Fb", True),
        (Paths(encoded_slash=True), "/a%5cb", False),
        (Paths(encoded_unreserved=True), "/%61%7e", True),
        (Paths(encoded_unreserved=True), "/x%2e", True),
        (Paths(encoded_unreserved=True), "/%2e%2E/x", False),
        (Paths(encoded_unreserved=True), "/.%2e/x", False),
        (Paths(mode=PathsMode.VERBATIM), "/../%2f//", True),
        (Paths(mode=PathsMode.VERBATIM), '/a"', False),
        (Paths(mode=PathsMode.VERBATIM), "/a#b", False),
    ],
)
def test_targets(paths: Paths, target: str, let_in: bool) -> None:
    assert (re.fullmatch(build_target_pattern(paths), target) is not None) is let_in


def test_the_hosts_that_envoy_accepts_are_those_of_the_contract() -> None:
    names = ("".join(each) for length in range(7) for each in product("a.-[:]", repeat=length))
    ports = (f"{name}:{zeros}{port}" for name in ("h", "[::1]") for zeros in ("", "0", "00") for port in range(70_000))
    for text in (*names, *ports, "a b", "a,b", "\u00e9", "h:1a", "h:-1", "h: 1"):
        assert bool(re.fullmatch(AUTHORITY, text)) is bool(re.fullmatch(request.AUTHORITY, text)), text
