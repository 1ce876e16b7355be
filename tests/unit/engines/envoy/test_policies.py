"""Policies of routes and pools as Envoy's configuration, and lines of its access log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lbgen.engines.envoy import ENGINE
from lbgen.plan.resolve import plan as resolve
from lbgen.spec.load import load
from tests.support.plans import topology

if TYPE_CHECKING:
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan

TWO = [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}]


def plan_of(
    route: dict[str, Any] | None = None, pool: dict[str, Any] | None = None, listener: dict[str, Any] | None = None
) -> Plan:
    pool = {"endpoints": TWO, **(pool or {})}
    return resolve(load(topology(route, pool=pool, listener=listener, access_log="none")))


def http(plan: Plan) -> dict[str, Any]:
    (file,) = ENGINE.render(plan, "1.40")
    (listener,) = yaml.safe_load(file.text)["static_resources"]["listeners"]
    found: dict[str, Any] = listener["filter_chains"][0]["filters"][-1]["typed_config"]
    return found


def routes(plan: Plan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http(plan)["route_config"]["virtual_hosts"][0]["routes"]
    return found


def notes(plan: Plan, feature: Feature) -> list[str]:
    return [o.verdict.note for o in ENGINE.objections(plan, "1.40") if o.feature == feature]


def test_causes_that_envoy_cannot_tell_apart_are_said() -> None:
    plan = plan_of({"retries": {"max": 1, "on": ["timeout"]}})
    assert notes(plan, "route.retries")[0].endswith("it also retries after connect_failure or reset")


def test_keepalive_counts_are_said_where_there_is_one() -> None:
    assert notes(plan_of(pool={"connections": {"keepalive": 4}}), "pool.connections.keepalive")
    assert not notes(plan_of(pool={"connections": {"keepalive": 0}}), "pool.connections.keepalive")
    assert not notes(plan_of(), "pool.connections.keepalive")


def test_a_cookie_decides_between_the_pools_of_a_split() -> None:
    data = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}},
        "pools": {
            "a": {"endpoints": TWO[:1], "sticky": {"cookie": "AB"}},
            "b": {"endpoints": TWO[1:], "sticky": {"cookie": "AB"}},
        },
        "routes": [{"name": "r", "forward": [{"pool": "a", "weight": 1}, {"pool": "b", "weight": 0}]}],
    }
    plan = resolve(load(data))
    to_a, to_b, fresh = routes(plan)
    assert [to_a["route"]["cluster"], to_b["route"]["cluster"], fresh["route"]["cluster"]] == ["a", "b", "a"]
    assert (
        to_b["match"]["cookies"][0]["string_match"]["safe_regex"]["regex"] == plan.pool("b").endpoints[0].cookie_value
    )
    assert "cookies" not in fresh["match"]


def test_listeners_that_count_a_rate_apart_are_said() -> None:
    limited = {"rate_limit": {"rate": "5/s", "key": "client_ip"}}
    assert not notes(plan_of(limited), "route.rate_limit")
    two = topology(limited, listeners={"web": {"port": 8080}, "too": {"port": 8081}})
    assert notes(resolve(load(two)), "route.rate_limit")


def test_a_client_behind_proxies_has_one_key_in_both_forms_of_its_address() -> None:
    limited = {"rate_limit": {"rate": "5/s", "key": "client_ip"}}
    names = [each["name"] for each in http(plan_of(limited, listener={"proxy_protocol": "accept"}))["http_filters"]]
    assert names == ["malformed", "client-address", "client-key", "rate-limit", "router"]


def test_what_bounds_connections_of_http2_is_said() -> None:
    bounded = {"protocol": "http2", "connections": {"max_per_endpoint": 2}}
    assert notes(plan_of(pool=bounded), "pool.connections.max_per_endpoint")


def test_an_origin_with_a_wildcard_covers_what_is_below_alone() -> None:
    (found,) = routes(plan_of({"cors": {"origins": ["https://*.a.example"], "credentials": True}}))
    policy = found["typed_per_filter_config"]["cors"]
    pattern = policy["allow_origin_string_match"][0]["safe_regex"]["regex"]
    assert re.fullmatch(pattern, "https://x.y.a.example")
    assert not re.fullmatch(pattern, "https://a.example")
    assert not re.fullmatch(pattern, "https://xa.example")


@pytest.mark.parametrize("regex", ["^$", "^", "$", "()"])
def test_a_query_regex_of_anchors_alone_matches_an_empty_value(regex: str) -> None:
    plan = plan_of({"match": [{"query": {"wsdl": {"regex": regex}}}]})
    (parameter,) = routes(plan)[0]["match"]["query_parameters"]
    pattern = parameter["string_match"]["safe_regex"]["regex"]
    assert pattern
    assert re.fullmatch(pattern, "")
    assert not re.fullmatch(pattern, "x")
