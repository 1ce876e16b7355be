"""Conditions below the plugin, and what it is asked to fill in for them."""

from __future__ import annotations

import pytest

from lbgen.engines.traefik.conditions import build_rule, find_asked
from lbgen.plan.model import HostPattern, Match, NamedMatch, PathKind, PathMatch, Rule, ValueKind, ValueMatch
from lbgen.resources import folder

EVERY = PathMatch(PathKind.PREFIX, "/")


def rule(match: Match, host: HostPattern | None = None) -> Rule:
    return Rule("r.0", 0, "r", host, match, "routes[0]")


def named(name: str, kind: ValueKind, value: str = "") -> NamedMatch:
    return NamedMatch(name, ValueMatch(kind, value))


@pytest.mark.parametrize(
    ("match", "wanted"),
    [
        (Match(EVERY), "Host(`*`)"),
        (Match(PathMatch(PathKind.EXACT, "/a%20b")), "Path(`/a%2520b`)"),
        (Match(PathMatch(PathKind.PREFIX, "/api")), "(Path(`/api`) || PathPrefix(`/api/`))"),
        (Match(PathMatch(PathKind.REGEX, "/[0-9]+")), "HeaderRegexp(`Lbgen-Path`, `^(?:/[0-9]+)$`)"),
        (Match(EVERY, headers=(named("x-v", ValueKind.EXACT, "1"),)), "Header(`X-V`, `1`)"),
        (Match(EVERY, headers=(named("cookie", ValueKind.PRESENT),)), "HeaderRegexp(`Lbgen-Cookie`, `.`)"),
        (Match(EVERY, query=(named("v", ValueKind.REGEX, "1|2"),)), "QueryRegexp(`v`, `^(?:1|2)$`)"),
        (Match(EVERY, cookies=(named("s", ValueKind.EXACT, "a"),)), "Header(`Cookie`, `s=a`)"),
        (Match(EVERY, cookies=(named("s", ValueKind.REGEX, "a|b"),)), "HeaderRegexp(`Cookie`, `^(?:s=(?:a|b))$`)"),
        (Match(EVERY, cookies=(named("s.t", ValueKind.PRESENT),)), r"HeaderRegexp(`Cookie`, `^s\.t=.`)"),
    ],
)
def test_a_rule_is_read_from_the_request_made_for_it(match, wanted):
    assert build_rule(rule(match)) == wanted


def test_only_what_rules_look_at_is_filled_in():
    match = Match(
        PathMatch(PathKind.REGEX, "/x"),
        headers=(named("x-b", ValueKind.PRESENT), named("x-a", ValueKind.PRESENT)),
        query=(named("q", ValueKind.PRESENT),),
        cookies=(named("c", ValueKind.PRESENT),),
    )
    assert find_asked([rule(match)]) == {"headers": ["x-a", "x-b"], "query": ["q"], "cookies": ["c"], "path": True}
    assert find_asked([rule(Match(EVERY, ("GET",)))]) == {}


@pytest.mark.parametrize("name", ["Lbgen-Path", "Lbgen-Cookie"])
def test_the_plugin_fills_in_these_headers(name):
    assert f'= "{name}"' in (folder("templates") / "traefik" / "plugin" / "conditions.go").read_text(encoding="utf-8")
