"""What Envoy refuses of the paths that it normalises, by the options of `paths`."""

from __future__ import annotations

from typing import Any

import pytest
import re2

from lbgen.conformance.prepare import plan_of
from lbgen.engines.envoy import ENGINE
from lbgen.engines.envoy.paths import build_path_fields, build_refusals
from lbgen.plan.policy import Paths, PathsMode
from lbgen.records import replace

TOPOLOGY: dict[str, Any] = {
    "version": 1,
    "name": "t",
    "listeners": {"web": {"port": 8080}},
    "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
    "routes": [{"name": "r", "forward": "p"}],
}
PLAN = plan_of(TOPOLOGY)


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
    found: Any = build_refusals(replace(PLAN.listeners[0], paths=paths), hides_method=False)
    pattern = found[0]["match"]["safe_regex"]["regex"]
    assert (re2.fullmatch(pattern, path) is None) is let_in


@pytest.mark.parametrize(("protocol", "refused"), [("http1", False), ("http2", True), ("grpc", True)])
def test_a_handshake_whose_method_http2_hides_is_a_get(protocol: str, refused: bool) -> None:
    data = {**TOPOLOGY, "pools": {"p": {"protocol": protocol, "endpoints": [{"address": "10.0.0.1:80"}]}}}
    assert ("refused: upgrade" in ENGINE.render(plan_of(data), "1.40")[0].text) is refused


@pytest.mark.parametrize(
    ("paths", "normal", "merged"),
    [(Paths(), True, True), (Paths(empty_segments=True), True, None), (Paths(mode=PathsMode.VERBATIM), False, None)],
)
def test_envoy_normalises_paths(paths: Paths, normal: bool, merged: bool | None) -> None:
    found = build_path_fields(paths)
    assert (found["normalize_path"], found.get("merge_slashes")) == (normal, merged)
