"""Rules of a plan as texts of Traefik's routers."""

from __future__ import annotations

import pytest

from lbgen.engines.traefik.matching import build_path, build_rule, count_rules, decode_path, find_priority, quote_regex
from lbgen.engines.traefik.quote import quote_rule_text
from lbgen.plan.conditions import Exact, Regex
from lbgen.plan.model import HostPattern, Match, Rule
from lbgen.plan.path_conditions import ExactPath, PrefixPath, RegexPath
from tests.support.plans import match

EVERY = PrefixPath("/")


def rule(match: Match, host: HostPattern | None = None, rank: int = 0) -> Rule:
    return Rule(f"r.{rank}", rank, "r", host, match, "routes[0]")


@pytest.mark.parametrize(
    ("match", "host", "wanted"),
    [
        (Match(ExactPath("/a%20b")), None, "Path(`/a b`)"),
        (match(EVERY, methods=("GET", "PUT")), HostPattern("a"), "Host(`a`) && (Method(`GET`) || Method(`PUT`))"),
        (
            match(EVERY, headers=(("x-v", Exact("1.0")),)),
            None,
            r"HeaderRegexp(`x-v`, `(?:^|,)[ \t]*1\.0[ \t]*(?:,|$)`)",
        ),
        (match(EVERY, query=(("v", Exact("`")),)), None, 'Query(`v`, "`")'),
        (match(EVERY, query=(("v", Regex("1|2")),)), None, "QueryRegexp(`v`, `^(?:1|2)$`)"),
        (
            match(EVERY, cookies=(("s", Regex("a|b")),)),
            None,
            r'HeaderRegexp(`Cookie`, `(?:^|;)[ \t]*s="?(?:a|b)"?[ \t]*(?:;|$)`)',
        ),
    ],
)
def test_a_rule_is_a_text_of_traefik(match, host, wanted):
    assert build_rule(rule(match, host)) == wanted


@pytest.mark.parametrize(
    ("path", "wanted"),
    [("/caf%C3%A9", "/caf\u00e9"), ("/a%2Fb%20c", "/a%2Fb c"), ("/%FF%3A", "/\udcff%3A"), ("/plain", "/plain")],
)
def test_a_path_is_decoded_but_for_reserved_characters(path, wanted):
    assert decode_path(path) == wanted


def test_earlier_rules_have_greater_priorities():
    rules = [rule(Match(EVERY), rank=rank) for rank in (2, 0, 1)]
    assert [find_priority(each, count_rules(rules)) for each in rules] == [1, 3, 2]
    assert count_rules(()) == 0


@pytest.mark.parametrize(
    ("text", "wanted"), [("a\\b", "`a\\b`"), ("a`\\", '"a`\\\\"'), ("a\r", '"a\\u000d"'), ("/\udcff", '"/\\xff"')]
)
def test_texts_of_rules_are_go_literals(text, wanted):
    assert quote_rule_text(text) == wanted


def test_a_text_in_an_expression_matches_itself():
    assert quote_regex("a.b+c") == r"a\.b\+c"


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("/a%20b.*", "^(?:/a b.*)$"),
        ("/%c3%a9/%2Fx", "^(?:/é/%2Fx)$"),
        ("/a%2Eb", r"^(?:/a\.b)$"),
        ("/[%20]%20+", "^(?:/[%20]%20+)$"),
        (r"/\%20", r"^(?:/\%20)$"),
    ],
)
def test_escapes_of_a_pattern_are_decoded_as_those_of_paths_are(pattern: str, written: str) -> None:
    assert build_path(RegexPath(pattern)) == [f"PathRegexp({quote_rule_text(written)})"]
