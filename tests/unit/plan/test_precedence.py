"""Rules are tried in the contract's order; host tables and path groups hold what that order asks for."""

import random
import re

import pytest

from lbgen.plan.conditions import Present
from lbgen.plan.model import HostPattern, Match, Rule
from lbgen.plan.path_conditions import PATHS, ExactPath, Path, PrefixPath, RegexPath, covering_prefixes
from lbgen.plan.precedence import (
    UnrankedL4Rule,
    UnrankedRule,
    host_tables,
    path_groups,
    rank_l4_rules,
    rank_rules,
)
from lbgen.plan.regex import literal_start, matches_whole
from tests.support.plans import match


def named(*names: str) -> tuple[tuple[str, Present], ...]:
    return tuple((n, Present()) for n in names)


def host(text: str | None) -> HostPattern | None:
    if text is None:
        return None
    return HostPattern(text.removeprefix("*."), text.startswith("*."))


def entry(name: str, of: str | None, asked: Match | Path, priority: int = 0) -> UnrankedRule:
    return UnrankedRule(name, name, priority, host(of), asked if isinstance(asked, Match) else Match(asked), name)


def names(rules: tuple[Rule, ...]) -> str:
    return " ".join(rule.id for rule in rules)


ROOT = PrefixPath("/")


def test_order_of_the_contract() -> None:
    """Each entry beats the one before it, by one criterion."""
    weakest_first = [
        entry("last", None, ROOT),
        entry("earlier-in-file", None, ROOT),
        entry("cookie", None, match(ROOT, cookies=named("a"))),
        entry("query", None, match(ROOT, query=named("a"))),
        entry("two-queries", None, match(ROOT, query=named("a", "b"))),
        entry("header", None, match(ROOT, headers=named("a"), cookies=named("a"))),
        entry("two-headers", None, match(ROOT, headers=named("a", "b"))),
        entry("method", None, match(ROOT, methods=("GET",))),
        entry("longer-prefix", None, PrefixPath("/a")),
        entry("longest-prefix", None, PrefixPath("/a/b/c/d/e/f")),
        entry("regex", None, RegexPath("/a")),
        entry("longer-regex", None, RegexPath("/ab")),
        entry("exact", None, ExactPath("/")),
        entry("wildcard", "*.test", ROOT),
        entry("longer-wildcard", "*.a.test", ROOT),
        entry("exact-host", "a.test", ROOT),
        entry("priority", None, ROOT, priority=1),
        entry("higher-priority", None, ROOT, priority=9),
    ]
    weakest_first[:2] = weakest_first[1::-1]
    by_strength = [e.id for e in weakest_first[:1:-1]]
    shuffled = weakest_first[:2] + random.Random(1).sample(weakest_first[2:], len(weakest_first) - 2)
    assert names(rank_rules(shuffled)).split() == [*by_strength, "earlier-in-file", "last"]


def test_rank_counts_from_zero() -> None:
    assert [r.rank for r in rank_rules([entry("a", None, ROOT), entry("b", None, ExactPath("/"))])] == [0, 1]


def test_exact_paths_tie_whatever_their_length() -> None:
    short = match(ExactPath("/a"), methods=("GET",))
    assert names(rank_rules([entry("long", None, ExactPath("/a/b")), entry("short", None, short)])) == "short long"


def test_l4_order() -> None:
    rules = rank_l4_rules(
        [
            UnrankedL4Rule("all", "r", 0, None, (), ""),
            UnrankedL4Rule("wide", "r", 0, None, ("10.0.0.0/8",), ""),
            UnrankedL4Rule("narrow", "r", 0, None, ("10.1.0.0/16", "10.0.0.0/8"), ""),
            UnrankedL4Rule("wildcard", "r", 0, host("*.test"), (), ""),
            UnrankedL4Rule("exact", "r", 0, host("a.test"), (), ""),
            UnrankedL4Rule("priority", "r", 1, None, (), ""),
        ]
    )
    assert [r.id for r in rules] == ["priority", "exact", "wildcard", "narrow", "wide", "all"]


def test_host_tables_hold_wider_rules_and_end_at_a_catch_all() -> None:
    api = PrefixPath("/api")
    tables = host_tables(
        rank_rules(
            [
                entry("any", None, ROOT),
                entry("any-api", None, api),
                entry("wild", "*.test", api),
                entry("deep", "*.a.test", ROOT),
                entry("one", "b.a.test", api),
                entry("two", "other", api),
                entry("apex", "test", ROOT),
            ]
        )
    )
    assert {str(t.host): names(t.rules) for t in tables} == {
        "b.a.test": "one deep",
        "other": "two any-api any",
        "test": "apex",
        "*.a.test": "deep",
        "*.test": "wild any-api any",
        "None": "any-api any",
    }
    assert [str(t.host) for t in tables] == ["b.a.test", "other", "test", "*.a.test", "*.test", "None"]


def test_the_hostless_table_is_always_there() -> None:
    assert [(str(t.host), len(t.rules)) for t in host_tables(rank_rules([entry("a", "a.test", ROOT)]))] == [
        ("a.test", 1),
        ("None", 0),
    ]
    assert host_tables(())[0].rules == ()


def test_priority_lifts_a_hostless_rule_above_a_host() -> None:
    tables = host_tables(rank_rules([entry("own", "a.test", ROOT), entry("lifted", None, PrefixPath("/x"), 1)]))
    assert names(tables[0].rules) == "lifted own"


@pytest.mark.parametrize(
    ("path", "prefixes"),
    [("/", "/"), ("/a", "/a /"), ("/a/", "/a /"), ("/a/b", "/a/b /a /"), ("/ab/c.d", "/ab/c.d /ab /"), ("", "/")],
)
def test_covering(path: str, prefixes: str) -> None:
    assert " ".join(covering_prefixes(path)) == prefixes


def groups(*entries: UnrankedRule) -> dict[str, str]:
    """`=path` or `path/`, to the candidates; `?` = path still to be tested."""
    table = host_tables(rank_rules(entries))[-1]
    return {
        ("=" if g.kind is ExactPath else "") + g.path: " ".join(c.rule.id + "?" * c.test_path for c in g.candidates)
        for g in path_groups(table.rules)
    }


def test_path_groups() -> None:
    assert groups(
        entry("root", None, ROOT),
        entry("api", None, PrefixPath("/api")),
        entry("post", None, match(PrefixPath("/api/v1"), methods=("POST",))),
        entry("one", None, match(ExactPath("/api/v1"), methods=("GET",))),
        entry("num", None, RegexPath("/api/v[0-9]+")),
        entry("png", None, RegexPath(r".*\.png")),
        entry("logo", None, ExactPath("/logo.png")),
    ) == {
        "=/api/v1": "one num",
        "=/logo.png": "logo",
        "/api/v1": "num? png? post api",
        "/api": "num? png? api",
        "/": "png? root",
    }


def test_a_regex_without_a_prefix_makes_a_root_group() -> None:
    assert groups(entry("r", None, RegexPath("/a/.*")), entry("p", None, PrefixPath("/b"))) == {
        "/b": "p",
        "/": "r?",
    }
    assert groups(entry("r", None, RegexPath("/a/.*")), entry("p", None, PrefixPath("/a"))) == {"/a": "r? p"}


def test_a_regex_is_left_to_be_tested_where_the_client_chooses_the_hex_case() -> None:
    exact = entry("e", None, match(ExactPath("/caf%C3%A9"), methods=("GET",)))
    assert groups(exact, entry("r", None, RegexPath("/caf%c3.*")))["=/caf%C3%A9"] == "e r?"
    plain = entry("e", None, match(ExactPath("/a%20b"), methods=("GET",)))
    assert groups(plain, entry("r", None, RegexPath("/a%20.*")))["=/a%20b"] == "e r"


@pytest.mark.parametrize(
    ("pattern", "start"),
    [
        ("/api/[0-9]+", "/api/"),
        ("/a|/b", "/"),
        ("(?i)/api", "/"),
        (".*", ""),
        ("/api(/x)?", "/api"),
        ("/a%20b", "/a"),
        ("/é", "/"),
        ("", ""),
        ("(?s).*", ""),
        ("/x.*", "/x"),
    ],
)
def test_literal_start(pattern: str, start: str) -> None:
    assert literal_start(pattern) == start


def test_regexes_match_bytes_as_a_whole() -> None:
    assert matches_whole("a.c", "abc")
    assert not matches_whole("a.", "abc")
    assert not matches_whole("a", "a\n")
    assert matches_whole("é", "é".encode().decode("latin-1"))


def holds(rule: Rule, path: str) -> bool:
    value = rule.match.path.value
    match rule.match.path:
        case ExactPath():
            return path == value
        case RegexPath():
            return re.fullmatch(value, path) is not None
        case PrefixPath():
            return value == "/" or path == value or path.startswith(value + "/")


def test_groups_find_what_the_list_finds() -> None:
    """Random tables, every short path: the group's first candidate is the list's first rule (methods stand for all
    further conditions)."""
    rng = random.Random(7)
    words = ["/a", "/b", "/ab", "/a/b", "/a/ab", "/a/b/a", "/b/a/b", "/ab/b", "/"]
    regexes = ["/a.*", "/(a|b)/.*", ".*b", "/a/b", "/[^/]+", "/ab?(/b)?", ".*", "/a/b/.+", "/b/a/[ab]"]
    paths = sorted({w.rstrip("/") + tail for w in words for tail in ("", "/", "/a", "b", "/b/")} - {""})
    for _ in range(400):
        entries = []
        for n in range(rng.randint(0, 12)):
            kind = rng.choice(PATHS)
            value = rng.choice(regexes if kind is RegexPath else words)
            methods = rng.choice([(), (), ("GET",), ("POST",)])
            entries.append(entry(f"r{n}", None, match(kind(value), methods=methods), rng.choice([0, 0, 0, 1])))
        table = host_tables(rank_rules(entries))[-1].rules
        found = path_groups(table)
        by_path = {(g.kind, g.path): g for g in found}
        assert len(by_path) == len(found)
        for path in paths:
            group = by_path.get((ExactPath, path)) or next(
                (by_path[PrefixPath, p] for p in covering_prefixes(path) if (PrefixPath, p) in by_path), None
            )
            for method in ("GET", "POST", "PUT"):
                want = next((r for r in table if holds(r, path) and method in (r.match.methods or (method,))), None)
                got = None
                for c in group.candidates if group else ():
                    if c.test_path or group.kind is ExactPath:
                        assert c.test_path or holds(c.rule, path)
                    if (not c.test_path or holds(c.rule, path)) and method in (c.rule.match.methods or (method,)):
                        got = c.rule
                        break
                assert got == want, (path, method, table)
