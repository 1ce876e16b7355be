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


def test_idempotent_methods_have_a_policy_of_their_own() -> None:
    plan = plan_of({"retries": {"max": 2, "on": ["connect_failure", "reset", "timeout", 503]}})
    own = ("upgrade", "x-lbgen-coded")  # of WebSockets, and of requests without a body
    found = [r for r in routes(plan) if all(h["name"] not in own for h in r["match"].get("headers", []))]
    long, every, rest = (r["route"]["retry_policy"] for r in found)
    assert found[0]["match"]["headers"][-1]["range_match"]["start"] == 16 * 1024 + 1
    assert long == rest
    assert every["retry_on"] == "connect-failure,reset,refused-stream,retriable-status-codes"
    assert every["retriable_status_codes"] == [503]
    assert rest["retry_on"] == "connect-failure"
    assert every["num_retries"] == rest["num_retries"] == 2
    assert not notes(plan, Feature.RETRIES)


def test_retries_on_a_connect_failure_alone_need_no_second_policy() -> None:
    plan = plan_of({"retries": {"max": 1, "on": ["connect_failure"]}})
    assert {r["route"]["retry_policy"]["retry_on"] for r in routes(plan)} == {"connect-failure"}


def test_causes_that_envoy_cannot_tell_apart_are_said() -> None:
    plan = plan_of({"retries": {"max": 1, "on": ["timeout"]}})
    assert notes(plan, Feature.RETRIES)[0].endswith("it also retries after connect_failure or reset")


def test_silence_of_the_client_outlasts_all_tries_but_not_a_tunnel() -> None:
    retries = {"max": 2, "on": ["connect_failure", "reset", "timeout"], "methods": "all"}
    plan = plan_of(
        {"retries": retries, "timeouts": {"connect": "1s", "response": "5s", "idle": "5s"}}, listener=PATIENT
    )
    long, tunnel, head_only, other = routes(plan)
    assert long["match"]["headers"][-1]["name"] == "content-length"
    assert tunnel["match"]["headers"][-1]["name"] == "upgrade"
    assert tunnel["route"]["idle_timeout"] == "5s"
    assert head_only["match"]["headers"][-1]["name"] == "x-lbgen-coded"
    assert head_only["route"]["idle_timeout"] == "18.500s"  # (1 + 2) * (1 + 5) s and some slack
    assert other["route"]["idle_timeout"] == "10s"  # the client's own, below
    assert "idle_timeout" not in long["route"]  # that of the listener is the same
    policy = other["route"]["retry_policy"]
    # Once the time of a try is over, Envoy forgets its silence.
    assert policy["per_try_idle_timeout"] == "5s"
    assert "per_try_timeout" not in policy


def test_a_try_whose_response_time_is_shorter_than_its_silence_has_both_and_says_so() -> None:
    plan = plan_of({"retries": {"max": 1, "on": ["timeout"]}, "timeouts": {"response": "2s", "idle": "5s"}})
    assert {r["route"]["retry_policy"].get("per_try_timeout") for r in routes(plan)} == {"2s"}
    assert any("pauses or stops reading within a body" in note for note in notes(plan, Feature.TIMEOUT_IDLE))


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


def test_a_rate_is_counted_by_envoy_on_one_listener_and_by_lua_on_two() -> None:
    limited = {"rate_limit": {"rate": "5/s", "key": "client_ip"}}
    names = [each["name"] for each in http(plan_of(limited))["http_filters"]]
    assert "rate-limit" in names
    assert "counters" not in names
    data = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}, "too": {"port": 8081}},
        "pools": {"p": {"endpoints": TWO}},
        "routes": [{"name": "r", "forward": "p", **limited}],
    }
    names = [each["name"] for each in http(resolve(load(data)))["http_filters"]]
    assert "counters" in names
    assert "rate-limit" not in names


def test_places_are_given_back_by_the_access_log() -> None:
    plan = plan_of({"concurrency": {"max": 3, "key": "route"}}, {"connections": {"max_per_endpoint": 2}})
    assert [each["name"] for each in http(plan)["access_log"]] == [
        "given back: place",
        "given back: endpoint",
        "given back: queue",
    ]
    assert "bootstrap_extensions" not in text_of(plan)


def test_a_queue_brings_a_listener_to_wait_at() -> None:
    connections = {"max_per_endpoint": 2, "queue": {"size": 5, "timeout": "1s"}}
    plan = plan_of(pool={"connections": connections})
    assert config(plan)["listeners"][-1]["name"] == config(plan)["clusters"][-1]["name"] == "lbgen-wait"


@pytest.mark.parametrize(
    "pool",
    [
        {"sticky": {"cookie": "LB"}},
        {"balance": "source_hash"},
        {"endpoints": [*TWO, {"address": "10.0.0.3:80", "backup": True}]},
        {"endpoints": [{"address": "name:80"}]},
    ],
)
def test_what_max_per_endpoint_does_not_go_with(pool: dict[str, Any]) -> None:
    plan = plan_of(pool={**pool, "connections": {"max_per_endpoint": 2}})
    assert len(notes(plan, Feature.MAX_PER_ENDPOINT)) == 1


def test_nothing_of_all_that_without_being_asked() -> None:
    text = text_of(plan_of())
    assert text.count("http.lua.v3") == 2  # what Connection names in a WebSocket handshake, and in a response
    assert "access_log:" not in text
    assert "retry_on" not in text


def test_a_preflight_is_answered_and_other_answers_lose_the_endpoints_own_word() -> None:
    found = routes(plan_of({"cors": {"origins": ["https://*.a.example"], "credentials": True}}))
    granted, refused, allowed, other = found
    assert granted["direct_response"] == refused["direct_response"] == {"status": 204}
    origin = next(h for h in granted["match"]["headers"] if h["name"] == "origin" and "string_match" in h)
    pattern = origin["string_match"]["safe_regex"]["regex"]
    assert re.fullmatch(pattern, "https://x.y.a.example")
    assert not re.fullmatch(pattern, "https://a.example")
    assert not re.fullmatch(pattern, "https://xa.example")
    for each in (allowed, other):
        assert "access-control-allow-origin" in each["response_headers_to_remove"]
    assert [h["header"]["key"] for h in other["response_headers_to_add"]] == ["vary"]
