"""The part of envoy.yaml that is the same for every route."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lbgen.engines.envoy import ENGINE
from lbgen.engines.envoy.build import KEYS, NOTES, build_static
from lbgen.plan.resolve import plan
from lbgen.spec.load import load
from tests.support.plans import topology

SMALL = topology()


@pytest.mark.parametrize(("version", "strict"), [("1.40", True), ("1.38", True), ("1.37", False)])
def test_guards_are_set_where_envoy_has_them(version: str, strict: bool) -> None:
    layers: Any = build_static(plan(load(SMALL)), version)["layered_runtime"]
    flags = layers["layers"][0]["static_layer"]
    assert ("envoy.reloadable_features.strict_chunk_parsing" in flags) is strict


def test_notes_and_reserved_keys_name_what_is_written() -> None:
    found = build_static(plan(load(SMALL)), "1.40", node=True)
    assert NOTES.keys() <= found.keys() <= set(KEYS)


@pytest.mark.parametrize(("added", "named"), [("", False), ("stats_flush_interval: 1s\n", True)])
def test_resources_from_elsewhere_need_a_node(added: str, named: bool) -> None:
    verbatim = {"engines": {"envoy": {"bootstrap": added}}} if added else {}
    [file] = ENGINE.render(plan(load({**SMALL, **verbatim})), "1.40")
    assert ("node" in yaml.safe_load(file.text)) is named
