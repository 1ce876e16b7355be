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
PATIENT = {"timeouts": {"client_header": "10s", "client_body": "10s", "keepalive": "10s"}}


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


def test_retries_on_a_connect_failure_alone_need_no_second_policy() -> None:
    plan = plan_of({"retries": {"max": 1, "on": ["connect_failure"]}})
    assert {r["route"]["retry_policy"]["retry_on"] for r in routes(plan)} == {"connect-failure"}


def test_causes_that_envoy_cannot_tell_apart_are_said() -> None:
    plan = plan_of({"retries": {"max": 1, "on": ["timeout"]}})
    assert notes(plan, Feature.RETRIES)[0].endswith("it also retries after connect_failure or reset")


def test_keepalive_counts_are_said_where_there_is_one() -> None:
    assert notes(plan_of(pool={"connections": {"keepalive": 4}}), Feature.KEEPALIVE)
    assert not notes(plan_of(pool={"connections": {"keepalive": 0}}), Feature.KEEPALIVE)
    assert not notes(plan_of(), Feature.KEEPALIVE)


def test_a_budget_is_the_clusters() -> None:
    plan = plan_of({"retries": {"max": 1, "on": ["reset"], "budget": "20%"}})
    thresholds = cluster(plan)["circuit_breakers"]["thresholds"][0]
    assert thresholds["retry_budget"]["budget_percent"] == {"value": 20}
    assert "max_retries" not in thresholds


def test_backups_wait_behind_all_others() -> None:
    assignment = cluster(plan_of(pool={"endpoints": [*TWO, {"address": "10.0.0.3:80", "backup": True}]}))
    first, second = assignment["load_assignment"]["endpoints"]
    assert (len(first["lb_endpoints"]), second["priority"]) == (2, 1)
    # One of a million endpoints is enough to keep all of the load.
    assert assignment["load_assignment"]["policy"]["overprovisioning_factor"] >= 100 * 1_000_000


def test_checks_count_before_they_judge_and_are_heard_at_once() -> None:
    active = {"path": "/up", "port": 9000, "fall": 3, "expect": [204]}
    found = cluster(plan_of(pool={"health": {"active": active, "passive": {"failures": 4, "eject_for": "10s"}}}))
    check = found["health_checks"][0]
    assert check["unhealthy_threshold"] == 3
    assert check["http_health_check"]["expected_statuses"] == [{"start": 204, "end": 205}]
    assert check["http_health_check"]["retriable_statuses"] == [{"start": 100, "end": 600}]
    endpoint = found["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    assert endpoint["health_check_config"] == {"port_value": 9000, "hostname": "10.0.0.1:80"}
    assert found["outlier_detection"]["consecutive_5xx"] == 4
    assert found["outlier_detection"]["max_ejection_time"] == "10s"
    assert found["common_lb_config"]["update_merge_window"] == "0s"


def test_a_sticky_cookie_holds_an_id_and_goes_to_the_endpoint() -> None:
    plan = plan_of(pool={"sticky": {"cookie": "LB", "ttl": "1h", "secure": True}})
    one = plan.pool("p").endpoints[0]
    code = text_of(plan)
    assert f'["{one.cookie_value}"]' in code
    assert "; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600; Secure" in code
    assert routes(plan)[0]["request_headers_to_remove"] == ["x-lbgen-endpoint"]


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


def test_idempotent_methods_have_a_policy_of_their_own() -> None:
    plan = plan_of({"retries": {"max": 2, "on": ["connect_failure", "reset", "timeout", 503]}})
    every, rest = (r["route"]["retry_policy"] for r in routes(plan))
    assert every["retry_on"] == "connect-failure,reset,refused-stream,retriable-status-codes"
    assert every["retriable_status_codes"] == [503]
    assert rest["retry_on"] == "connect-failure"
    assert every["num_retries"] == rest["num_retries"] == 2
    assert not notes(plan, Feature.RETRIES)


def test_a_tunnel_is_no_request_with_an_end() -> None:
    for asked in ({"timeouts": {"request": "5s"}}, {"buffering": {"request": True}}):
        tunnel, other = routes(plan_of(asked))
        assert tunnel["match"]["headers"][-1]["name"] == "upgrade"
        assert "max_stream_duration" not in tunnel["route"]
        assert "request-buffer" not in tunnel.get("typed_per_filter_config", {})
        assert "max_stream_duration" in other["route"] or "request-buffer" in other["typed_per_filter_config"]


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


def test_nothing_of_all_that_without_being_asked() -> None:
    text = text_of(plan_of())
    assert "lua" not in text
    assert "access_log:" not in text
    assert "retry_on" not in text


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
