"""Trees of routers: every request meets the rule that the plan asks for, and no router has many below it."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from lbgen.engines.traefik.matching import decode_path
from lbgen.engines.traefik.prefix_trees import MOST, Tree
from lbgen.plan.model import HostPattern, Match, Rule
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath, RegexPath
from lbgen.plan.precedence import UnrankedRule, host_tables, rank_rules


def entry(path: str, host: str = "", kind: type[Path] = PrefixPath) -> UnrankedRule:
    pattern = HostPattern(host.removeprefix("*."), wildcard=host.startswith("*.")) if host else None
    return UnrankedRule(f"r{path}{host}.0", "r", 0, pattern, Match(kind(path)), "routes[0]")


def tree_of(entries: list[UnrankedRule]) -> tuple[Tree, tuple[Rule, ...]]:
    rules = rank_rules(entries)
    return Tree("edge-web", host_tables(rules), decode_path), rules


def holds(condition: str, host: str, path: str) -> bool:
    kind, text = re.fullmatch(r"(\w+)\(`(.*)`\)", condition).groups()
    match kind:
        case "Host":
            return text in ("*", host)
        case "HostRegexp":
            return re.search(text, host) is not None
        case "Path":
            return path == text
        case _:
            return path.startswith(text)


def leaf(tree: Tree, host: str, path: str) -> tuple[str, int]:
    """The parent of the rules that Traefik tries, and how many groups it tries before."""
    at, tried = "edge-web", 0
    while below := [group for group in tree.groups if group.parent == at]:
        for group in sorted(below, key=lambda each: -each.priority):
            tried += 1
            if any(holds(condition, host, path) for condition in group.rule.split(" || ")):
                break
        else:
            raise AssertionError(f"no group below {at} takes {host}{path}")
        at = group.name
    return at, tried


def meets(rule: Rule, host: str, path: str) -> bool:
    wanted = rule.match.path
    if rule.host is not None and not rule.host.covers(host):
        return False
    if isinstance(wanted, ExactPath):
        return path == wanted.value
    if isinstance(wanted, RegexPath):
        return re.fullmatch(wanted.value, path) is not None
    return wanted.covers_all or path == wanted.value or path.startswith(f"{wanted.value}/")


MANY = {
    "paths": [entry(f"/r{i}") for i in range(300)],
    "paths of one": [entry(f"/api/v1/r{i}") for i in range(200)] + [entry("/api"), entry("/")],
    "exact and regex": [entry(f"/r{i}", kind=ExactPath) for i in range(120)]
    + [entry("/r[0-9]", kind=RegexPath), entry("/r1/x")],
    "hosts": [entry("/", f"h{i}.test") for i in range(300)] + [entry("/", "*.test"), entry("/all")],
    "hosts and paths": [entry(f"/r{i}", "a.test") for i in range(120)] + [entry("/r7/x"), entry("/", "*.test")],
    "wildcards": [entry("/", f"*.w{i}.test") for i in range(120)] + [entry("/", "*.test")],
    "hosts that begin alike": [entry("/", f"a.test{'.a' * i}") for i in range(1, 60)] + [entry("/", "a.test")],
    "hosts with many paths": [entry(f"/r{i}", f"h{h}.test") for h in range(3) for i in range(60)] + [entry("/r1")],
    "many wider rules": [entry("/", f"h{i}.test") for i in range(60)] + [entry(f"/r{i}") for i in range(60)],
    "addresses": [entry("/", f"h{i}.test") for i in range(60)] + [entry("/", "::1"), entry("/r1")],
    "addresses beside many": [entry("/", f"h{i}.test") for i in range(60)]
    + [entry("/", "::1"), *(entry(f"/r{i}", f"*.w{i}.test") for i in range(60))],
    "few": [entry("/a"), entry("/", "a.test")],
}


@pytest.mark.parametrize("entries", MANY.values(), ids=MANY)
def test_every_request_meets_its_rule(entries):
    tree, rules = tree_of(entries)
    hosts = ["a.test", "h1.test", "h2.test", "h299.test", "x.w7.test", "other", "h1", "a.test.a.a", "a.testa", "::1"]
    paths = ["/", "/r1", "/r1/x", "/r1x", "/r119", "/r7/x", "/all", "/api", "/api/v1/r3/y", "/api/v1", "/none"]
    for host in hosts:
        for path in paths:
            parent, _ = leaf(tree, host, path)
            wanted = next((rule.rank for rule in rules if meets(rule, host, path)), None)
            tried = sorted(rank for rank, parents in tree.parents.items() if parent in parents)
            assert next((rank for rank in tried if meets(rules[rank], host, path)), None) == wanted


@pytest.mark.parametrize("entries", MANY.values(), ids=MANY)
def test_no_router_has_many_below_it(entries):
    tree, _ = tree_of(entries)
    below = Counter(parent for parents in tree.parents.values() for parent in parents)
    below.update(group.parent for group in tree.groups)
    assert max(below.values()) <= MOST + 5


SHAPES = {
    "paths": lambda i: entry(f"/service-{i}"),
    "hosts": lambda i: entry("/", f"service-{i}.example.com"),
    "hosts of one letter each": lambda i: entry("/", f"{chr(97 + i % 26)}{i}.test"),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_request_tries_few_of_1000_routers(shape):
    tree, rules = tree_of([shape(i) for i in range(1000)])
    below = Counter(parent for parents in tree.parents.values() for parent in parents)
    for rule in rules[::7]:
        parent, tried = leaf(tree, rule.host.name if rule.host else "h", rule.match.path.value)
        assert tried + below[parent] <= 80
    assert len(tree.groups) < 250


def test_groups_are_told_apart_by_how_hosts_and_paths_begin():
    tree, _ = tree_of([SHAPES["hosts"](i) for i in range(60)])
    assert tree.groups[0].rule == "Host(`service-0.example.com`)"
    assert tree.groups[1].rule.startswith(r"HostRegexp(`^service-1(?:\.example\.com|0\.")
    assert tree.groups[-1].rule == "Host(`*`)"
    tree, _ = tree_of([SHAPES["paths"](i) for i in range(60)])
    assert tree.groups[1].rule == "PathPrefix(`/service-1`)"


def test_few_rules_need_no_group():
    tree, rules = tree_of([entry(f"/{i}") for i in range(9)])
    assert tree.groups == []
    assert set(tree.parents) == {rule.rank for rule in rules}
