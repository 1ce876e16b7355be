"""The Envoy configuration as data: clusters, routes, edits, source marks, verdicts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lbgen.engines.api import Level, missing_answers
from lbgen.engines.envoy import ENGINE
from lbgen.engines.envoy.headers import merge_edits
from lbgen.engines.envoy.protobuf import duration
from lbgen.engines.envoy.rewrites import replace_prefix
from lbgen.engines.envoy.run import judge
from lbgen.engines.envoy.support import TABLES
from lbgen.plan.features import Feature
from lbgen.plan.model import (
    Balance,
    Forward,
    HeaderEdits,
    HostPattern,
    PathKind,
    PathMatch,
    Plan,
    Pool,
    Redirect,
    Respond,
    Rewrite,
    Target,
    Timeouts,
)
from lbgen.plan.resolve import plan
from lbgen.spec.load import load
from tests.support.plans import by_match, endpoint, equals, like, on_tcp, pool, prefix, route

TIMES = Timeouts(1_000, 5_000, 60_000)


def forward(times: Timeouts = TIMES, rewrite: Rewrite | None = None, *targets: tuple[str, int]) -> Forward:
    shares = targets or (("p", 1),)
    return Forward(tuple(Target(pool, weight, HeaderEdits(), "") for pool, weight in shares), times, rewrite)


def plan_of(*actions: Forward | Redirect | Respond, pools: tuple[Pool, ...] | None = None, **match: Any) -> Plan:
    rules = [(prefix(f"/r{n}", **match), route(f"r{n}", action, n)) for n, action in enumerate(actions)]
    return by_match(rules, pools or (pool("p"),))


def render(plan: Plan) -> dict[str, Any]:
    (file,) = ENGINE.render(plan, "1.40")
    found: dict[str, Any] = yaml.safe_load(file.text)
    return found


def http(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = render(plan)["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    return found["typed_config"]


def routes_in(host: dict[str, Any]) -> list[dict[str, Any]]:
    """The routes of a virtual host, which may stand behind the test of requests."""
    if "routes" not in host:
        host = host["matcher"]["matcher_list"]["matchers"][0]["on_match"]["action"]["typed_config"]
    found: list[dict[str, Any]] = host["routes"]
    return found


def routes_of(plan: Plan) -> list[dict[str, Any]]:
    return routes_in(http(plan)["route_config"]["virtual_hosts"][0])


def test_every_feature_has_an_answer() -> None:
    for table in TABLES.values():
        assert missing_answers(tuple(table), Feature) == ()
    assert ENGINE.verdict(Feature.DIRECT, "1.40").level is Level.REFUSED


def test_lines_know_the_field_they_came_from() -> None:
    (file,) = ENGINE.render(plan_of(forward()), "1.40")
    lines = file.text.splitlines()
    assert len(lines) == len(file.origins)
    origins = {line.strip(): origin for line, origin in zip(lines, file.origins, strict=True)}
    assert origins["- match: { path_separated_prefix: /r0 }"] == "routes[0].match[0]"
    (endpoint,) = (line for line in origins if "address: 10.0.0.1" in line)
    assert origins[endpoint] == "pools.p.endpoints[0]"


def test_rendering_is_repeatable() -> None:
    plan = plan_of(forward(), Respond(200, "ok\n", ()), Redirect(301, path="/x"))
    assert ENGINE.render(plan, "1.40") == ENGINE.render(plan, "1.40")


def test_a_pool_has_one_cluster_for_each_connect_time() -> None:
    plan = plan_of(forward(), forward(Timeouts(250, 60_000, 60_000)))
    clusters = {c["name"]: c["connect_timeout"] for c in render(plan)["static_resources"]["clusters"]}
    assert clusters == {"p@250ms": "0.250s", "p@1000ms": "1s"}
    assert [r["route"]["cluster"] for r in routes_of(plan)] == ["p@1000ms", "p@250ms"]


def test_a_time_of_zero_sets_no_limit() -> None:
    tunnel, head_only, other = routes_of(plan_of(forward(Timeouts(0, 0, 0))))
    for each in (tunnel, head_only):
        assert each["route"]["timeout"] == each["route"]["idle_timeout"] == "0s"
        assert "retry_policy" not in each["route"]
    assert other["route"]["idle_timeout"] == "60s"  # of a client within its body


def test_names_are_resolved_and_drained_endpoints_stay() -> None:
    named = pool("p", endpoint("web-1", weight=0), endpoint("fd00::1", weight=5))
    (cluster,) = render(plan_of(forward(), pools=(named,)))["static_resources"]["clusters"]
    assert cluster["cluster_type"]["typed_config"]["dns_refresh_rate"] == "5s"
    drained, serving = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert drained["health_status"] == "DRAINING"
    assert "load_balancing_weight" not in drained
    assert serving["load_balancing_weight"] == 5
    assert serving["endpoint"]["address"]["socket_address"]["address"] == "fd00::1"


def test_edits_of_route_and_target_become_one_list() -> None:
    route = HeaderEdits(set=(("a", "1"), ("b", "1")), add=(("c", "1"),), remove=("d",))
    target = HeaderEdits(set=(("a", "2"),), add=(("b", "2"),), remove=("c", "e"))
    removed, added = merge_edits(route, target)
    assert sorted(removed) == ["b", "c", "d", "e"]
    assert [(x["header"], x["append_action"]) for x in added] == [
        ({"key": "a", "value": "2"}, "OVERWRITE_IF_EXISTS_OR_ADD"),
        ({"key": "b", "value": "1"}, "APPEND_IF_EXISTS_OR_ADD"),
        ({"key": "b", "value": "2"}, "APPEND_IF_EXISTS_OR_ADD"),
    ]


def test_percent_signs_are_doubled_where_envoy_formats() -> None:
    _, added = merge_edits(HeaderEdits(set=(("x", "100% %PROTOCOL%"),)))
    assert added[0]["header"] == {"key": "x", "value": "100%% %%PROTOCOL%%"}


@pytest.mark.parametrize(
    ("rewrite", "pattern", "substitution"),
    [
        (Rewrite(prefix="/"), "^/r0/?(.*)$", "/\\1"),
        (Rewrite(path="/x"), "^.*$", "/x"),
    ],
)
def test_rewrites_cut_at_the_segment(rewrite: Rewrite, pattern: str, substitution: str) -> None:
    (route,) = routes_of(plan_of(forward(TIMES, rewrite)))
    assert route["route"]["regex_rewrite"] == {"pattern": {"regex": pattern}, "substitution": substitution}


@pytest.mark.parametrize(
    ("path", "prefix", "field"),
    [
        (PathMatch(PathKind.PREFIX, "/r0"), "/v1/", {"prefix_rewrite": "/v1"}),
        (PathMatch(PathKind.PREFIX, "/"), "/v1", {"prefix_rewrite": "/v1/"}),
        (PathMatch(PathKind.PREFIX, "/"), "/", {"prefix_rewrite": "/"}),
        (PathMatch(PathKind.EXACT, "/r0"), "/v1", {"prefix_rewrite": "/v1"}),
        (PathMatch(PathKind.EXACT, "/r0"), "/", {"prefix_rewrite": "/"}),
        (
            PathMatch(PathKind.PREFIX, "/caf%C3%A9"),
            "/v1",
            {"regex_rewrite": {"pattern": {"regex": "^/caf%[Cc]3%[Aa]9(/.*)?$"}, "substitution": "/v1\\1"}},
        ),
    ],
)
def test_a_prefix_is_replaced_by_envoy_where_that_leaves_one_slash(
    path: PathMatch, prefix: str, field: dict[str, Any]
) -> None:
    assert replace_prefix(path, prefix) == field


def test_shares_of_weight_zero_are_left_out() -> None:
    (route,) = routes_of(plan_of(forward(TIMES, None, ("p", 1), ("q", 0)), pools=(pool("p"), pool("q"))))
    assert route["route"]["cluster"] == "p"


def test_hosts_have_a_domain_with_and_without_the_last_dot() -> None:
    hosts = (HostPattern("a.test"), HostPattern("a.test", wildcard=True), HostPattern("[::1]"))
    found = render(
        by_match(((prefix("/"), route("r0", forward()), host) for host in hosts), (pool("p"),), address="::")
    )
    (built,) = found["static_resources"]["listeners"]
    assert built["address"]["socket_address"]["ipv4_compat"] is True
    hosts = built["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]["virtual_hosts"]
    domains = {domain for host in hosts for domain in host["domains"]}
    assert domains == {"a.test", "a.test.", "*.a.test", "*.a.test.", "[::1]"}


def test_l4_splits_by_weight() -> None:
    action = forward(TIMES, None, ("p", 3), ("q", 1))
    found = http(on_tcp(action, pool("p", balance=Balance.SOURCE_HASH), pool("q")))
    assert found["weighted_clusters"]["clusters"] == [{"name": "p", "weight": 3}, {"name": "q", "weight": 1}]
    assert found["hash_policy"] == [{"source_ip": {}}]
    assert found["idle_timeout"] == "60s"


def test_trust_is_asked_only_where_somebody_is_trusted() -> None:
    found = http(plan_of(forward()))
    assert [f["name"] for f in found["http_filters"]] == ["malformed", "router"]
    assert [f["name"] for f in found["upgrade_configs"][0]["filters"]] == ["malformed", "handshake", "router"]


def test_admin_is_on_loopback_and_only_when_asked() -> None:
    assert "admin" not in render(plan_of(forward()))


def test_objections_name_their_place() -> None:
    matches = {"headers": (equals("x-forwarded-proto", "https"),), "query": (like("q", r"a\b.*"),)}
    plan = plan_of(forward(Timeouts(1, 500, 100)), **matches)
    found = {o.field: (o.verdict.level, o.feature) for o in ENGINE.objections(plan, "1.40")}
    assert found == {
        "routes[0].match[0].query.q": (Level.APPROXIMATE, Feature.QUERY_REGEX),
        "routes[0].timeouts.idle": (Level.APPROXIMATE, Feature.TIMEOUT_IDLE),
    }


@pytest.mark.parametrize(("ms", "text"), [(0, "0s"), (250, "0.250s"), (1_000, "1s"), (61_005, "61.005s")])
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_the_checker_is_silent_when_envoy_is_content() -> None:
    assert judge(0, "configuration 'envoy.yaml' OK", {}) == ()
    assert judge(1, "[2026-01-01][1][critical][main] [x.cc:1] no such field\n", {}) == ("[x.cc:1] no such field",)


def of_text(topology: str) -> dict[str, Any]:
    (file,) = ENGINE.render(plan(load(yaml.safe_load(topology))), "1.40")
    found: dict[str, Any] = yaml.safe_load(file.text)
    return found


SMALL = """
version: 1
name: t
listeners: { web: { port: 8080 EXTRA } }
pools: { p: { endpoints: [{ address: "10.0.0.1:80" }] } }
routes: [{ name: r, forward: p }]
"""


def manager(extra: str = "", more: str = "") -> dict[str, Any]:
    config = of_text(SMALL.replace("EXTRA", extra) + more)
    found: dict[str, Any] = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    return found["typed_config"]


def test_what_trusted_peers_send_is_read_by_filters_of_their_own() -> None:
    names = [f["name"] for f in manager(", trusted_proxies: [10.0.0.0/8]")["http_filters"]]
    assert names == ["untrusted-peer", "odd-values", "forwarded-headers", "no-host", "malformed", "router"]


def test_a_request_without_a_host_has_a_host_table_of_its_own_instead_of_a_filter() -> None:
    hosts = manager()["route_config"]["virtual_hosts"]
    assert hosts[-1]["domains"] == ["no-host.invalid"]
    assert hosts[-1]["request_headers_to_remove"] == ["x-forwarded-host"]
    assert routes_in(hosts[-1]) == routes_in(hosts[-2])


def test_host_and_path_are_saved_for_the_log_only_where_a_route_rewrites_them() -> None:
    assert [f["name"] for f in manager()["http_filters"]] == ["malformed", "router"]
    rewritten = of_text(SMALL.replace("EXTRA", "").replace("forward: p", "forward: p, rewrite: { prefix: /x }"))
    listener = rewritten["static_resources"]["listeners"][0]
    asked = listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"][0]
    assert asked["name"] == "original-request"
    assert [each["object_key"] for each in asked["typed_config"]["on_request_headers"]] == ["original.path"]


def test_a_rule_on_a_forwarded_header_asks_for_a_trusted_peer() -> None:
    text = SMALL.replace("EXTRA", "").replace("forward: p", "forward: p, match: [{ headers: { x-forwarded-for: a } }]")
    trusting = text.replace("port: 8080", "port: 8080, trusted_proxies: [10.0.0.0/8]")
    (chain,) = of_text(trusting)["static_resources"]["listeners"][0]["filter_chains"]
    config = chain["filters"][-1]["typed_config"]
    assert "forwarded-headers" in [f["name"] for f in config["http_filters"]]
    assert "filter_state" in str(config["route_config"])
    assert "envoy.network.ip" in str(chain)


def test_what_is_left_to_envoy_has_no_filter_and_no_lua() -> None:
    found = manager(more="guarantees: engine\n")
    assert [f["name"] for f in found["http_filters"]] == ["paths", "router"]
    assert found["normalize_path"] is found["merge_slashes"] is True
    assert "local_reply_config" not in found
    assert found["upgrade_configs"] == [{"upgrade_type": "websocket"}]
    assert "lua" not in str(found)
    assert "because" not in str(found)  # nothing refuses a request before its route


def test_the_time_of_a_request_keeps_its_status_where_answers_are_left_to_envoy() -> None:
    timed = SMALL.replace("EXTRA", "").replace("forward: p", "forward: p, timeouts: { request: 1s }")
    found = of_text(timed + "guarantees: engine\n")["static_resources"]["listeners"][0]
    (mapper,) = found["filter_chains"][0]["filters"][0]["typed_config"]["local_reply_config"]["mappers"]
    assert mapper["status_code"] == 504
    assert "max_duration_timeout" in str(mapper["filter"])


def test_a_rate_limit_has_one_set_of_buckets() -> None:
    limited = SMALL.replace("EXTRA", "").replace("forward: p", "forward: p, rate_limit: { rate: 5/s, key: client_ip }")
    found = of_text(limited)["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    assert found["upgrade_configs"] == [{"upgrade_type": "websocket"}]
    assert "handshake" in [f["name"] for f in found["http_filters"]]


@pytest.mark.parametrize(
    ("more", "by_route"),
    [
        ("", True),
        (", rewrite: { prefix: /x }", True),
        (", retries: { max: 1, on: [503] }", False),
        (", hosts: [a.test]", False),
        (", response_headers: { set: { x-a: b } }", False),
        (", access: { deny: [10.0.0.0/8] }", False),
        (", cors: { origins: ['https://a.test'] }", False),
        (", sticky: true", False),
    ],
)
def test_malformed_requests_have_a_route_where_no_other_answer_depends_on_it(more: str, by_route: bool) -> None:
    topology = SMALL.replace("EXTRA", "")
    if "sticky" in more:
        topology = topology.replace("p: {", "p: { sticky: { cookie: LB },")
    else:
        topology = topology.replace("forward: p", f"forward: p{more}")
    listener = of_text(topology)["static_resources"]["listeners"][0]
    found = listener["filter_chains"][0]["filters"][0]["typed_config"]
    (malformed,) = (each for each in found["http_filters"] if each["name"] == "malformed")
    assert malformed.get("disabled", False) is by_route
    for host in found["route_config"]["virtual_hosts"]:
        assert ("matcher" in host) is by_route
        if by_route:
            assert "malformed" in host["matcher"]["on_no_match"]["action"]["typed_config"]["typed_per_filter_config"]
    assert malformed in found["upgrade_configs"][0]["filters"]
