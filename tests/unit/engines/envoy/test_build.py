"""The Envoy configuration as data: clusters, routes, edits, source marks, verdicts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from lbgen.engines.api import NATIVE, Level
from lbgen.engines.envoy import ENGINE
from lbgen.engines.envoy.headers import merge_edits
from lbgen.engines.envoy.protobuf import duration
from lbgen.engines.envoy.rewrites import replace_prefix
from lbgen.engines.envoy.run import judge
from lbgen.plan.model import (
    Balance,
    Forward,
    HeaderEdits,
    Plan,
    Pool,
    Redirect,
    Respond,
    Rewrite,
    Target,
    Timeouts,
)
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath
from lbgen.plan.resolve import plan
from lbgen.spec.load import load
from tests.support.plans import by_match, equals, like, on_tcp, pool, prefix, route

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


def routes_of(plan: Plan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http(plan)["route_config"]["virtual_hosts"][0]["routes"]
    return found


def test_what_has_no_row_is_native() -> None:
    assert ENGINE.verdict("match.host", "1.40") is NATIVE
    assert ENGINE.verdict("engines.forwarding.direct", "1.40").level is Level.REFUSED


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


# All that literal edits read of a route.
AT: Any = SimpleNamespace(route=SimpleNamespace(name="r"), on=SimpleNamespace(listener=None))


def test_edits_of_route_and_target_become_one_list() -> None:
    route = HeaderEdits(set=(("a", "1"), ("b", "1")), add=(("c", "1"),), remove=("d",))
    target = HeaderEdits(set=(("a", "2"),), add=(("b", "2"),), remove=("c", "e"))
    removed, added = merge_edits(AT, "request", route, target)
    assert sorted(removed) == ["b", "c", "d", "e"]
    assert [(x["header"], x["append_action"]) for x in added] == [
        ({"key": "a", "value": "2"}, "OVERWRITE_IF_EXISTS_OR_ADD"),
        ({"key": "b", "value": "1"}, "APPEND_IF_EXISTS_OR_ADD"),
        ({"key": "b", "value": "2"}, "APPEND_IF_EXISTS_OR_ADD"),
    ]


def test_percent_signs_are_doubled_where_envoy_formats() -> None:
    _, added = merge_edits(AT, "request", HeaderEdits(set=(("x", "100% %PROTOCOL%"),)))
    assert added[0]["header"] == {"key": "x", "value": "100%% %%PROTOCOL%%"}


@pytest.mark.parametrize(
    ("path", "prefix", "field"),
    [
        (PrefixPath("/r0"), "/v1/", {"prefix_rewrite": "/v1"}),
        (PrefixPath("/"), "/v1", {"prefix_rewrite": "/v1/"}),
        (PrefixPath("/"), "/", {"prefix_rewrite": "/"}),
        (ExactPath("/r0"), "/v1", {"prefix_rewrite": "/v1"}),
        (ExactPath("/r0"), "/", {"prefix_rewrite": "/"}),
        (
            PrefixPath("/caf%C3%A9"),
            "/v1",
            {"regex_rewrite": {"pattern": {"regex": "^/caf%[Cc]3%[Aa]9(/.*)?$"}, "substitution": "/v1\\1"}},
        ),
    ],
)
def test_a_prefix_is_replaced_by_envoy_where_that_leaves_one_slash(
    path: Path, prefix: str, field: dict[str, Any]
) -> None:
    assert replace_prefix(path, prefix) == field


def test_l4_splits_by_weight() -> None:
    action = forward(TIMES, None, ("p", 3), ("q", 1))
    found = http(on_tcp(action, pool("p", balance=Balance.SOURCE_HASH), pool("q")))
    assert found["weighted_clusters"]["clusters"] == [{"name": "p", "weight": 3}, {"name": "q", "weight": 1}]
    assert found["hash_policy"] == [{"source_ip": {}}]
    assert found["idle_timeout"] == "60s"


def test_objections_name_their_place() -> None:
    matches = {"headers": (equals("x-forwarded-proto", "https"),), "query": (like("q", r"a\b.*"),)}
    plan = plan_of(forward(Timeouts(1, 500, 100)), **matches)
    found = {(o.field, o.verdict.level, o.feature) for o in ENGINE.objections(plan, "1.40")}
    assert found == {
        ("routes[0].timeouts.idle", Level.APPROXIMATE, "timeouts.idle"),
        ("routes[0].timeouts.idle", Level.HABIT, "timeouts.idle"),
        ("routes[0].match[0].query.q", Level.HABIT, "match.query.regex"),
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


def test_admin_is_a_socket_of_envoys_user_or_on_loopback() -> None:
    made = plan_of(forward())
    assert render(made)["admin"]["address"]["pipe"]["mode"] == 0o600
    envoy_yaml = yaml.safe_load(ENGINE.render(replace(made, admin_port=9901), "1.40")[-1].text)
    assert envoy_yaml["admin"]["address"]["socket_address"]["address"] == "127.0.0.1"


@pytest.mark.parametrize("limited", [False, True])
def test_a_rule_on_a_forwarded_header_asks_for_a_trusted_peer_where_the_client_is_looked_up(limited: bool) -> None:
    more = ", access: { deny: [192.0.2.0/24] }" if limited else ""
    rule = "match: [{ headers: { x-forwarded-for: a } }]"
    text = SMALL.replace("EXTRA", f", trusted_proxies: [10.0.0.0/8]{more}").replace("forward: p", f"forward: p, {rule}")
    (chain,) = of_text(text)["static_resources"]["listeners"][0]["filter_chains"]
    config = chain["filters"][-1]["typed_config"]
    assert ("untrusted-peer" in [f["name"] for f in config["http_filters"]]) is limited
    assert ("filter_state" in str(config["route_config"])) is limited
    assert ("envoy.network.ip" in str(chain)) is limited
    assert ("internal_only_headers" in config["route_config"]) is not limited
