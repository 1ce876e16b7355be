"""What Envoy refuses of the paths that it normalises, by the options of `paths`."""

from __future__ import annotations

from typing import Any

import pytest
import re2
from msgspec.structs import replace

from lbgen.conformance.prepare import plan_of
from lbgen.engines.envoy.paths import build_refusal_filter
from lbgen.plan.policy import Paths, PathsMode
from tests.support.plans import topology

PLAN = plan_of(topology())


@pytest.mark.parametrize(
    ("paths", "path", "let_in"),
    [
        (Paths(), "/a%20b/%C3%a9/%25", True),
        (Paths(), "/a|b{}^", True),
        (Paths(), "/a%zz", False),
        (Paths(), "/%", False),
        (Paths(), "/%0a", False),
        (Paths(), "/%7F", False),
        (Paths(encoded_slash=True), "/a%2Fb", True),
        (Paths(encoded_slash=True), "/a%5cb", False),
        (Paths(encoded_slash=True), "/a/..%2fb", False),
        (Paths(encoded_slash=True), "/a%2F..", False),
        (Paths(encoded_slash=True), "/a%2F.b", True),
        (Paths(mode=PathsMode.VERBATIM), "/../%2f//%0a", True),
        (Paths(mode=PathsMode.VERBATIM), "/%00", False),
        (Paths(mode=PathsMode.VERBATIM), "/%4", False),
    ],
)
def test_paths(paths: Paths, path: str, let_in: bool) -> None:
    pattern = refused(paths)[0]["url_path"]["path"]["safe_regex"]["regex"]
    assert (re2.fullmatch(pattern, path) is None) is let_in


def refused(paths: Paths) -> list[Any]:
    found: Any = build_refusal_filter(replace(PLAN.listeners[0], paths=paths), hides_method=False)
    permissions: list[Any] = found["typed_config"]["rules"]["policies"]["malformed"]["permissions"]
    return permissions


@pytest.mark.parametrize("host", ["h.example", "h:80", "h:", "", "[::1]:80", "a_b~%41", "xn--bcher-kva.example."])
def test_a_valid_host_is_let_in(host: str) -> None:
    assert re2.fullmatch(refused(Paths())[2]["header"]["string_match"]["safe_regex"]["regex"], host)


@pytest.mark.parametrize("host", ["a,b", "a:80:80", "a:x", "u@a", "[::1", "a/b", "a b", "a#b", "\\a", "ä"])
def test_a_host_that_can_be_read_in_two_ways_is_refused(host: str) -> None:
    assert not re2.fullmatch(refused(Paths())[2]["header"]["string_match"]["safe_regex"]["regex"], host)
