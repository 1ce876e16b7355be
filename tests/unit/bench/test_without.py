"""Which features of a topology are removed, and what is left."""

from __future__ import annotations

from pathlib import Path

import lbgen
from lbgen.bench.target import choose_target
from lbgen.bench.without import L7, OTHER_ROUTES, variants
from lbgen.plan.model import Mode
from lbgen.plan.request import Request

SHOP = Path(__file__).parents[3] / "examples" / "shop" / "topology.yaml"
RICH = {
    "version": 1,
    "name": "t",
    "request_id": False,
    "listeners": {"web": {"port": 8080, "max_connections": 100}},
    "pools": {
        "app": {"endpoints": [{"address": "10.0.0.1:80"}], "sticky": {"cookie": "LB"}},
        "new": {"endpoints": [{"address": "10.0.0.2:80"}]},
    },
    "routes": [
        {
            "name": "all",
            "match": [{"path": {"regex": "/a/[0-9]+"}, "methods": ["GET"]}],
            "forward": [{"pool": "app", "weight": 9}, {"pool": "new", "weight": 1}],
            "retries": {"max": 1, "on": ["connect_failure"]},
        }
    ],
}


def features(topology):
    plan = lbgen.plan(topology)
    target = choose_target(plan)
    return {each.feature: each for each in variants(topology, plan, target)}, target


def test_features_of_the_profile_the_listener_the_route_and_the_pool() -> None:
    found, _ = features(lbgen.load(RICH))
    assert list(found) == [
        "access_log",
        "forwarded_headers",
        "listeners.web.max_connections",
        "routes[all].retries",
        "pools.app.sticky",
        "routes[all].match[0].methods",
        "routes[all].match[0].path",
        "routes[all].forward",
        L7,
    ]
    assert found["routes[all].retries"].plan.route("all").action.retries is None
    assert found["pools.app.sticky"].plan.pool("app").sticky is None
    assert [x.pool for x in found["routes[all].forward"].plan.route("all").action.targets] == ["app"]


def test_the_same_request_is_sent_also_to_layer_4() -> None:
    found, target = features(lbgen.load(RICH))
    assert {(each.target.target, each.target.headers) for each in found.values()} == {(target.target, target.headers)}
    assert found[L7].plan.listener("web").mode is Mode.L4


def test_routes_that_nothing_reaches_without_a_condition_go_with_it() -> None:
    found, _ = features(lbgen.load(SHOP))
    assert "routes[canary].match[0].headers and api" in found
    left = found[OTHER_ROUTES].plan.listener("web")
    assert {rule.route for table in left.hosts for rule in table.rules} == {"canary"}


def test_what_the_request_does_not_meet_is_left_alone() -> None:
    shop = lbgen.load(SHOP)
    plan = lbgen.plan(shop)
    request = Request("GET", "/assets/a.css", (("Host", "static.shop.example"),), "web")
    found = [each.feature for each in variants(shop, plan, choose_target(plan, request))]
    assert "pools.assets.balance" in found
    assert "routes[assets].rewrite" in found
    assert not [each for each in found if "canary" in each]
