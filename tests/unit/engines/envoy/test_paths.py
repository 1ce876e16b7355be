"""Which targets Envoy accepts, by the options of `paths`."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.envoy.paths import build_target_pattern
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
