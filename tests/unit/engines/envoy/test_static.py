"""The part of envoy.yaml that is the same for every route."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lbgen.engines.document import Commented
from lbgen.engines.envoy import ENGINE
from lbgen.engines.envoy.comments import explain_filter
from lbgen.engines.envoy.static import KEYS, NOTES, build_static
from lbgen.plan.resolve import plan
from lbgen.spec.load import load

SMALL: dict[str, Any] = {
    "version": 1,
    "name": "t",
    "listeners": {"web": {"port": 8080}},
    "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
    "routes": [{"name": "r", "forward": "p"}],
}

OWN_INLINE = (
    "te",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-lbgen-external-address",
    "x-request-id",
)


@pytest.mark.parametrize(("guarantees", "strict"), [({}, True), ({"guarantees": {"framing": "engine"}}, False)])
def test_only_the_bytes_after_a_handshake_are_left_to_envoy(guarantees: dict[str, Any], strict: bool) -> None:
    layers: Any = build_static(plan(load({**SMALL, **guarantees})))["layered_runtime"]
    flags = layers["layers"][0]["static_layer"]
    assert flags["envoy.reloadable_features.strict_chunk_parsing"].value is True
    assert ("envoy.reloadable_features.http_pause_generic_upgrade_request_body" in flags) is strict


@pytest.mark.parametrize("guarantees", [{}, {"profile": "native"}])
def test_no_header_that_each_request_looks_up_needs_an_index(guarantees: dict[str, Any]) -> None:
    """Envoy's own inline headers are those of its sources that lbgen uses."""
    made = plan(load({**SMALL, **guarantees}))
    found = yaml.safe_load(ENGINE.render(made, ENGINE.versions[0])[0].text)
    inline: dict[str, set[str]] = {"REQUEST_HEADER": set(OWN_INLINE), "RESPONSE_HEADER": set()}
    for each in found["inline_headers"]:
        inline[each["inline_header_type"]].add(each["inline_header_name"])
    manager = found["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    routes = manager["route_config"]
    asked = {*routes["request_headers_to_remove"], *(x["header"]["key"] for x in routes["request_headers_to_add"])}
    for early in manager.get("early_header_mutation_extensions", ()):
        for mutation in early["typed_config"]["mutations"]:
            asked.add(mutation.get("remove") or mutation["append"]["header"]["key"])
    asked |= {x["typed_config"]["header_name"] for x in manager.get("original_ip_detection_extensions", ())}
    assert asked - inline["REQUEST_HEADER"] == set()
    assert set(routes["response_headers_to_remove"]) == inline["RESPONSE_HEADER"]


def test_layer_4_looks_up_no_header() -> None:
    l4 = {"listeners": {"web": {"port": 8080, "mode": "l4"}}, "routes": [{**SMALL["routes"][0], "listeners": ["web"]}]}
    assert "inline_headers" not in build_static(plan(load({**SMALL, **l4})))


def test_notes_and_reserved_keys_name_what_is_written() -> None:
    found = build_static(plan(load(SMALL)), node=True)
    assert NOTES.keys() <= found.keys() <= set(KEYS)


@pytest.mark.parametrize(("added", "named"), [("", False), ("stats_flush_interval: 1s\n", True)])
def test_resources_from_elsewhere_need_a_node(added: str, named: bool) -> None:
    verbatim = {"engines": {"envoy": {"bootstrap": added}}} if added else {}
    [file] = ENGINE.render(plan(load({**SMALL, **verbatim})), "1.40")
    assert ("node" in yaml.safe_load(file.text)) is named


def test_a_filter_keeps_its_data_below_a_comment() -> None:
    explained = explain_filter({"name": "malformed", "x": 1})
    assert isinstance(explained, Commented)
    assert explained.value == {"name": "malformed", "x": 1}
    assert explain_filter({"name": "other"}) == {"name": "other"}


@pytest.mark.parametrize("paths", ["contract", "engine"])
def test_the_peer_is_found_by_envoys_own_field_only_where_paths_are_left_to_it(paths: str) -> None:
    [file] = ENGINE.render(plan(load({**SMALL, "guarantees": {"paths": paths}})), "1.40")
    shown = [line.split(":")[0].strip() for line in file.text.splitlines()]
    assert ("use_remote_address" in shown) is (paths == "engine")
    assert ("original_ip_detection_extensions" in shown) is (paths == "contract")
