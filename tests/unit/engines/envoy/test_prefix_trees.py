"""Envoy's prefix tree of routes finds what the plain list finds."""

from __future__ import annotations

from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbgen.engines.envoy import ENGINE, prefix_trees
from lbgen.plan.matching import covers_host, mismatch
from lbgen.plan.model import Match, Rule
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath, RegexPath
from lbgen.plan.request import RefusedError, parse_request
from lbgen.plan.resolve import plan
from lbgen.spec.load import load
from tests.support.strategies import PlanShape, plans, requests

GENEROUS = mock.patch.multiple(prefix_trees, _MIN_RULES=0, _LEAF=1, _GROWTH=1_000)


def rule(rank: int, kind: type[Path], path: str) -> Rule:
    return Rule(f"r{rank}", rank, f"r{rank}", None, Match(kind(path)), f"routes[{rank}]")


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_first_match_is_the_same(data: st.DataObject) -> None:
    plan = data.draw(plans(PlanShape(rules=20, plain=True)))
    with GENEROUS:
        found = {t.host: prefix_trees.build_prefix_tree(t.rules) for x in plan.listeners for t in x.hosts}
    for _ in range(20):
        request = data.draw(requests(plan))
        try:
            parsed = parse_request(request)
        except RefusedError:
            continue
        table = next(t for t in plan.listeners[0].hosts if covers_host(t.host, parsed.host))
        tree = found[table.host]
        assert tree is not None
        key = max((k for k in tree if parsed.target.startswith(k)), key=len)
        listed = next((r for r in table.rules if mismatch(r, parsed) is None), None)
        assert next((r for r in tree[key] if mismatch(r, parsed) is None), None) == listed


def test_small_and_unruly_tables_stay_lists() -> None:
    assert prefix_trees.build_prefix_tree([rule(n, ExactPath, f"/{n}") for n in range(100)]) is None
    everywhere = [rule(n, RegexPath, f".*{n}") for n in range(200)]
    assert (
        prefix_trees.build_prefix_tree([*everywhere, *(rule(200 + n, ExactPath, f"/{n}") for n in range(200))]) is None
    )


def test_a_leaf_holds_what_its_targets_can_meet_and_no_more() -> None:
    rules = [
        rule(0, ExactPath, "/api"),
        rule(1, RegexPath, "/ap[a-z]+"),
        rule(2, PrefixPath, "/api/v1"),
        rule(3, PrefixPath, "/api"),
        rule(4, PrefixPath, "/caf%C3%A9"),
        rule(5, PrefixPath, "/"),
        rule(6, PrefixPath, "/api/v1/x"),
    ]
    with GENEROUS:
        found = prefix_trees.build_prefix_tree(rules)
    assert found is not None
    assert {key: [r.rank for r in leaf] for key, leaf in found.items()} == {
        "/": [5],
        "/a": [1, 5],
        "/api": [0, 1, 3, 5],
        "/api/": [1, 2, 3],
        "/api/v1/": [1, 2],
        "/c": [4, 5],
    }


def test_a_tree_is_rendered_with_the_types_of_envoy() -> None:
    routes = [{"name": f"r{n}", "match": [{"path": {"prefix": f"/r{n}"}}], "forward": "p"} for n in range(300)]
    pools = {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}}
    data = {"version": 1, "name": "t", "listeners": {"web": {"port": 8080}}, "pools": pools, "routes": routes}
    (file,) = ENGINE.render(plan(load(data)), "1.40")
    assert '"@type": type.googleapis.com/envoy.config.route.v3.RouteList' in file.text
    assert '"@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput' in file.text
