"""Trees of routers: every request meets the rule that the plan asks for, and no router has many below it."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from lbgen.engines.traefik.conditions import escape_path
from lbgen.engines.traefik.listeners import build_listener
from lbgen.engines.traefik.prefix_trees import MOST, Tree
from lbgen.plan.model import HostPattern, Match, PathKind, PathMatch, Respond, Route, Rule
from lbgen.plan.precedence import UnrankedRule, host_tables, rank_rules
from tests.support.plans import on_web


def entry(path: str, host: str = "", kind: PathKind = PathKind.PREFIX) -> UnrankedRule:
    pattern = HostPattern(host.removeprefix("*."), wildcard=host.startswith("*.")) if host else None
    return UnrankedRule(f"r{path}{host}.0", "r", 0, pattern, Match(PathMatch(kind, path)), "routes[0]")


def tree_of(entries: list[UnrankedRule]) -> tuple[Tree, tuple[Rule, ...]]:
    rules = rank_rules(entries)
    return Tree("edge-web", host_tables(rules), escape_path), rules


def holds(condition: str, host: str, path: str) -> bool:
    kind, text = re.fullmatch(r"(\w+)\(`(.*)`\)", condition).groups()
    if kind == "Host":
        return text in ("*", host)
    return re.search(text, host if kind == "HostRegexp" else path) is not None


def leaf(tree: Tree, host: str, path: str) -> str:
    """The parent of the rules that Traefik tries."""
    at = "edge-web"
    while below := [group for group in tree.groups if group.parent == at]:
        at = next(g.name for g in sorted(below, key=lambda g: -g.priority) if holds(g.rule, host, path))
    return at


def meets(rule: Rule, host: str, path: str) -> bool:
    wanted = rule.match.path
    if rule.host is not None and not rule.host.covers(host):
        return False
    if wanted.kind is PathKind.EXACT:
        return path == wanted.value
    if wanted.kind is PathKind.REGEX:
        return re.fullmatch(wanted.value, path) is not None
    return wanted.covers_all or path == wanted.value or path.startswith(f"{wanted.value}/")


MANY = {
    "paths": [entry(f"/r{i}") for i in range(300)],
    "paths of one": [entry(f"/api/v1/r{i}") for i in range(200)] + [entry("/api"), entry("/")],
    "exact and regex": [entry(f"/r{i}", kind=PathKind.EXACT) for i in range(120)]
    + [entry("/r[0-9]", kind=PathKind.REGEX), entry("/r1/x")],
    "hosts": [entry("/", f"h{i}.test") for i in range(300)] + [entry("/", "*.test"), entry("/all")],
    "hosts and paths": [entry(f"/r{i}", "a.test") for i in range(120)] + [entry("/r7/x"), entry("/", "*.test")],
    "wildcards": [entry("/", f"*.w{i}.test") for i in range(120)] + [entry("/", "*.test")],
    "few": [entry("/a"), entry("/", "a.test")],
}


@pytest.mark.parametrize("entries", MANY.values(), ids=MANY)
def test_every_request_meets_its_rule(entries):
    tree, rules = tree_of(entries)
    hosts = ["a.test", "h1.test", "h299.test", "x.w7.test", "other"]
    paths = ["/", "/r1", "/r1/x", "/r119", "/r7/x", "/all", "/api", "/api/v1/r3/y", "/api/v1", "/none"]
    for host in hosts:
        for path in paths:
            parent = leaf(tree, host, path)
            assert parent in tree.leaves
            wanted = next((rule.rank for rule in rules if meets(rule, host, path)), None)
            tried = sorted(rank for rank, parents in tree.parents.items() if parent in parents)
            assert next((rank for rank in tried if meets(rules[rank], host, path)), None) == wanted


@pytest.mark.parametrize("entries", MANY.values(), ids=MANY)
def test_no_router_has_many_below_it(entries):
    tree, _ = tree_of(entries)
    below = Counter(parent for parents in tree.parents.values() for parent in parents)
    below.update(group.parent for group in tree.groups)
    assert max(below.values()) <= MOST + 5


def test_few_rules_need_no_group():
    tree, rules = tree_of(MANY["few"])
    assert (tree.groups, tree.leaves) == ([], ["edge-web"])
    assert set(tree.parents) == {rule.rank for rule in rules}


def test_each_rule_is_a_router_below_that_of_its_entry_point():
    rules = [
        UnrankedRule(f"a.{i}", "a", 0, None, Match(PathMatch(PathKind.PREFIX, path)), f"routes[0].match[{i}]")
        for i, path in enumerate(("/a", "/b"))
    ]
    made = on_web(rules, (Route("a", 0, Respond(200, "ok", ()), "routes[0]"),), ())
    http = build_listener(made, made.listeners[0], "3.7")["http"]
    assert list(http["routers"]) == ["edge-web", "a.0", "a.1", "edge-web.lost"]
    assert http["routers"]["a.1"] == {
        "parentRefs": ["edge-web"],
        "rule": "(Path(`/b`) || PathPrefix(`/b/`))",
        "priority": 2,
        "middlewares": ["a"],
        "service": "noop@internal",
    }
    assert list(http["middlewares"]) == ["edge-web", "a", "edge-web.lost"]
