"""Routers by rule, by host and by the start of paths: whatever their layout, the first rule that holds takes a
request."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import lbgen
from lbgen.engines.traefik import ENGINE
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate

if TYPE_CHECKING:
    from types import CodeType

    from lbgen.plan.model import Plan


def plan_of(routes: list[dict[str, Any]], **more: Any) -> Plan:
    pools = {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}}
    listeners = {"web": {"port": 8080}}
    data = {"version": 1, "name": "t", "profile": "minimal", "listeners": listeners, "pools": pools, "routes": routes}
    return lbgen.plan(lbgen.load({**data, **more}))


def routers_of(plan: Plan) -> dict[str, Any]:
    """The routers but those that refuse TRACE."""
    files = {file.name: file.text for file in ENGINE.render(plan, "3.7")}
    found: dict[str, Any] = yaml.safe_load(files["dynamic/http.yaml"])["http"]["routers"]
    return {name: data for name, data in found.items() if not name.startswith("~")}


@cache
def compiled(rule: str) -> CodeType:
    """A rule as a Python expression."""
    text = rule.replace("&&", " and ").replace("||", " or ").replace("`", '"')
    return compile(re.sub(r'"(.*?)"', r'r"\1"', text), "rule", "eval")


def holds(rule: str, host: str, path: str) -> bool:
    """A rule of hosts and paths, evaluated as Traefik does."""
    known = {
        "Host": lambda text: text in ("*", host),
        "HostRegexp": lambda text: re.search(text, host) is not None,
        "Path": lambda text: path == text,
        "PathPrefix": path.startswith,
        "PathRegexp": lambda text: re.search(text, path) is not None,
    }
    return bool(eval(compiled(rule), known))  # noqa: S307  # a rule of ours


Tree = dict[str, list[tuple[str, dict[str, Any]]]]


def tree_of(routers: dict[str, Any]) -> Tree:
    """The routers below each parent ("" = none), in the order of trial."""
    tree: Tree = {}
    for name, data in sorted(routers.items(), key=lambda each: -each[1]["priority"]):
        for parent in data.get("parentRefs", ("",)):
            tree.setdefault(parent, []).append((name, data))
    return tree


def taken_by(tree: Tree, host: str, path: str, parent: str = "") -> str:
    """The router that Traefik would choose."""
    for name, data in tree[parent]:
        if holds(data["rule"], host, path):
            return name if "service" in data else taken_by(tree, host, path, name)
    return ""


MANY = [f"s{n}" for n in range(120)] + ["s1/deep", "s", "s14x", "other"]


def many() -> list[dict[str, Any]]:
    """Rules of one host that wider ones and other hosts mix with."""
    routes: list[dict[str, Any]] = []
    for n, name in enumerate(MANY):
        kind = "exact" if n % 7 == 0 else "prefix"
        hosts = {} if n % 5 == 0 else {"hosts": ["a.test", "*.b.test"] if n % 3 else ["a.test"]}
        routes.append({"name": f"r{n}", **hosts, "match": [{"path": {kind: f"/{name}"}}], "forward": "app"})
    routes.append(
        {"name": "digits", "hosts": ["a.test"], "match": [{"path": {"regex": "/s1[0-9]+/x"}}], "forward": "app"}
    )
    routes.append({"name": "b", "hosts": ["x.b.test"], "forward": "app"})
    return routes


@pytest.mark.parametrize("host", ["a.test", "x.b.test", "y.b.test", "z.test"])
def test_a_tree_finds_the_rule_that_the_contract_asks_for(host):
    plan = plan_of(many())
    routers = routers_of(plan)
    tree = tree_of(routers)
    assert len(tree) > 10
    for name in [*MANY, "nothing", "s1x", "s14"]:
        for path in (f"/{name}", f"/{name}/x", f"/{name}x"):
            wanted = simulate(plan, Request("GET", path, (("host", host),))).route or ""
            found = taken_by(tree, host, path)
            assert found.partition("~")[0] == wanted, (path, found)


def test_many_hosts_are_in_groups():
    hosts = [f"{letter}{n}.test" for letter in "abc" for n in range(40)] + ["*.test"]
    tree = tree_of(
        routers_of(plan_of([{"name": f"h{n}", "hosts": [host], "forward": "app"} for n, host in enumerate(hosts)]))
    )
    assert max(len(below) for below in tree.values()) <= 50
    for n, host in enumerate(hosts[:-1]):
        assert taken_by(tree, host, "/") == f"h{n}"
    assert taken_by(tree, "a99.test", "/") == "h120"


def test_no_parent_is_without_routers():
    routers = routers_of(plan_of(many()))
    parents = {parent for data in routers.values() for parent in data.get("parentRefs", ())}
    assert {name for name, data in routers.items() if "service" not in data} == parents


def test_no_parent_has_many_routers_of_many_thousand():
    routes = [{"name": f"r{n}", "match": [{"path": {"prefix": f"/p{n}"}}], "forward": "app"} for n in range(1500)]
    tree = tree_of(routers_of(plan_of(routes)))
    assert max(len(below) for below in tree.values()) <= 50


def test_hosts_of_a_rule_are_one_router_where_no_other_rule_lies_between():
    plan = plan_of(
        [
            {"name": "api", "hosts": ["a.test", "*.a.test"], "match": [{"path": {"prefix": "/api"}}], "forward": "app"},
            {"name": "all", "hosts": ["a.test"], "forward": "app"},
        ]
    )
    assert list(routers_of(plan)) == ["api", "all"]
    between = plan_of(
        [
            {"name": "api", "hosts": ["a.test", "*.a.test"], "match": [{"path": {"prefix": "/api"}}], "forward": "app"},
            {"name": "www", "hosts": ["www.a.test"], "forward": "app"},
        ]
    )
    assert list(routers_of(between)) == ["api", "www", "api~2"]


def test_listeners_with_the_same_rules_share_routers():
    two = {"listeners": {"web": {"port": 8080}, "second": {"port": 8081}}}
    assert list(routers_of(plan_of([{"name": "all", "forward": "app"}], **two))) == ["all~+"]
    apart = [
        {"name": "all", "forward": "app"},
        {"name": "x", "listeners": ["second"], "hosts": ["x"], "forward": "app"},
    ]
    routers = routers_of(plan_of(apart, **two))
    assert {name: data["entryPoints"] for name, data in routers.items()} == {
        "all": ["web"],
        "x~second": ["second"],
        "all~second": ["second"],
    }
