"""Rules of a plan as texts of Traefik's routers."""

from __future__ import annotations

import pytest

from lbgen.engines.traefik.matching import build_rule, count_rules, decode_path, find_priority, quote_regex
from lbgen.engines.traefik.quote import quote_rule_text
from lbgen.plan.model import HostPattern, Match, NamedMatch, PathKind, PathMatch, Rule, ValueKind, ValueMatch

EVERY = PathMatch(PathKind.PREFIX, "/")


def rule(match: Match, host: HostPattern | None = None, rank: int = 0) -> Rule:
    return Rule(f"r.{rank}", rank, "r", host, match, "routes[0]")


def named(name: str, kind: ValueKind, value: str = "") -> NamedMatch:
    return NamedMatch(name, ValueMatch(kind, value))


@pytest.mark.parametrize(
    ("match", "host", "wanted"),
    [
        (Match(PathMatch(PathKind.EXACT, "/a%20b")), None, "Path(`/a b`)"),
        (Match(EVERY, ("GET", "PUT")), HostPattern("a"), "Host(`a`) && (Method(`GET`) || Method(`PUT`))"),
        (
            Match(EVERY, headers=(named("x-v", ValueKind.EXACT, "1.0"),)),
            None,
            r"HeaderRegexp(`x-v`, `(?:^|,)[ \t]*1\.0[ \t]*(?:,|$)`)",
        ),
        (Match(EVERY, query=(named("v", ValueKind.EXACT, "`"),)), None, 'Query(`v`, "`")'),
        (Match(EVERY, query=(named("v", ValueKind.REGEX, "1|2"),)), None, "QueryRegexp(`v`, `^(?:1|2)$`)"),
        (
            Match(EVERY, cookies=(named("s", ValueKind.REGEX, "a|b"),)),
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
