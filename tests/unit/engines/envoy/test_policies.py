"""Policies of routes and pools as Envoy's configuration, and lines of its access log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lbgen.engines.envoy import ENGINE
from lbgen.plan.features import Feature
from lbgen.plan.resolve import plan as resolve
from lbgen.spec.load import load

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

TWO = [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}]


def plan_of(
    route: dict[str, Any] | None = None, pool: dict[str, Any] | None = None, listener: dict[str, Any] | None = None
) -> Plan:
    return resolve(
        load(
            {
                "version": 1,
                "name": "t",
                "access_log": "none",
                "listeners": {"web": {"port": 8080, **(listener or {})}},
                "pools": {"p": {"endpoints": TWO, **(pool or {})}},
                "routes": [{"name": "r", **({"forward": "p"} if route is None else {"forward": "p", **route})}],
            }
        )
    )


def text_of(plan: Plan) -> str:
    (file,) = ENGINE.render(plan, "1.40")
    return file.text


def config(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text_of(plan))["static_resources"]
    return found


def http(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = config(plan)["listeners"][0]["filter_chains"][0]["filters"][-1]["typed_config"]
    return found


def routes(plan: Plan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http(plan)["route_config"]["virtual_hosts"][0]["routes"]
    return found


def cluster(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = config(plan)["clusters"][0]
    return found


def notes(plan: Plan, feature: Feature) -> list[str]:
    return [o.verdict.note for o in ENGINE.objections(plan, "1.40") if o.feature is feature]


def test_causes_that_envoy_cannot_tell_apart_are_said() -> None:
    plan = plan_of({"retries": {"max": 1, "on": ["timeout"]}})
    assert notes(plan, Feature.RETRIES)[0].endswith("it also retries after connect_failure or reset")


def test_keepalive_counts_are_said_where_there_is_one() -> None:
    assert notes(plan_of(pool={"connections": {"keepalive": 4}}), Feature.KEEPALIVE)
    assert not notes(plan_of(pool={"connections": {"keepalive": 0}}), Feature.KEEPALIVE)
    assert not notes(plan_of(), Feature.KEEPALIVE)


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


def test_a_rate_has_one_bucket_per_client_and_says_where_listeners_count_apart() -> None:
    limited = {"rate_limit": {"rate": "5/s", "key": "client_ip"}}
    (rate,) = (each for each in http(plan_of(limited))["http_filters"] if each["name"] == "rate-limit")
    assert rate["typed_config"]["rate_limits"][0]["actions"][-1] == {"remote_address": {}}
    assert not notes(plan_of(limited), Feature.RATE_LIMIT)
    data = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}, "too": {"port": 8081}},
        "pools": {"p": {"endpoints": TWO}},
        "routes": [{"name": "r", "forward": "p", **limited}],
    }
    assert notes(resolve(load(data)), Feature.RATE_LIMIT)


def test_a_client_behind_proxies_has_one_key_in_both_forms_of_its_address() -> None:
    limited = {"rate_limit": {"rate": "5/s", "key": "client_ip"}}
    names = [each["name"] for each in http(plan_of(limited, listener={"proxy_protocol": "accept"}))["http_filters"]]
    assert names == ["malformed", "client-address", "client-key", "rate-limit", "router"]


def test_an_endpoint_is_bounded_by_its_connections() -> None:
    breakers = cluster(plan_of(pool={"connections": {"max_per_endpoint": 2}}))["circuit_breakers"]
    assert breakers["per_host_thresholds"] == [{"max_connections": 2}]
    bounded = {"protocol": "http2", "connections": {"max_per_endpoint": 2}}
    assert notes(plan_of(pool=bounded), Feature.MAX_PER_ENDPOINT)


def test_cors_is_envoys_own_filter_and_endpoints_have_no_say() -> None:
    (found,) = routes(plan_of({"cors": {"origins": ["https://*.a.example"], "credentials": True}}))
    policy = found["typed_per_filter_config"]["cors"]
    pattern = policy["allow_origin_string_match"][0]["safe_regex"]["regex"]
    assert re.fullmatch(pattern, "https://x.y.a.example")
    assert not re.fullmatch(pattern, "https://a.example")
    assert not re.fullmatch(pattern, "https://xa.example")
    assert policy["forward_not_matching_preflights"] is False
    assert "access-control-allow-origin" in found["response_headers_to_remove"]
    assert [h["header"]["key"] for h in found["response_headers_to_add"]] == ["vary"]


@pytest.mark.parametrize("regex", ["^$", "^", "$", "()"])
def test_a_query_regex_of_anchors_alone_matches_an_empty_value(regex: str) -> None:
    plan = plan_of({"match": [{"query": {"wsdl": {"regex": regex}}}]})
    (parameter,) = routes(plan)[0]["match"]["query_parameters"]
    pattern = parameter["string_match"]["safe_regex"]["regex"]
    assert pattern
    assert re.fullmatch(pattern, "")
    assert not re.fullmatch(pattern, "x")
