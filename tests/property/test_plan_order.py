"""Four ways to the winning rule agree: trying all by rank, the oracle, the host tables, the path groups."""

from collections.abc import Iterator
from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lbgen.conformance.corpus import overlapping_drafts
from lbgen.conformance.verify.requests import overlaps
from lbgen.plan.admission import client_address
from lbgen.plan.matching import mismatch
from lbgen.plan.model import HostTable, Plan, Rule
from lbgen.plan.path_conditions import ExactPath, PrefixPath, RegexPath, covering_prefixes
from lbgen.plan.precedence import PathGroup, covering_hosts, path_groups
from lbgen.plan.regex import matches_whole
from lbgen.plan.request import RefusedError, Request, parse_request
from lbgen.plan.shadowing import covers, find_shadowed
from lbgen.plan.simulate import simulate
from tests.support.strategies import plans, requests, rules_of


def table_for(tables: tuple[HostTable, ...], host: str | None) -> HostTable:
    """The way an engine picks: exact, else longest wildcard, else the last."""
    for table in tables:
        if table.host is None or (host is not None and table.host.covers(host)):
            return table
    raise AssertionError("the hostless table is missing")


def group_for(groups: tuple[PathGroup, ...], path: str) -> PathGroup | None:
    known = {(group.kind, group.path): group for group in groups}
    if (ExactPath, path) in known:
        return known[ExactPath, path]
    return next((known[PrefixPath, p] for p in covering_prefixes(path) if (PrefixPath, p) in known), None)


def check(plan: Plan, request: Request) -> None:
    outcome = simulate(plan, request)
    try:
        parsed = parse_request(request)
        client = client_address(plan.listeners[0], request.client, parsed.lines("x-forwarded-for"))
        parsed = replace(parsed, client=client)
    except RefusedError:
        assert outcome.route is None
        return
    by_rank = next((rule.id for rule in rules_of(plan) if mismatch(rule, parsed) is None), None)
    assert by_rank == outcome.rule
    reasons = {rule.id: mismatch(rule, parsed) for rule in rules_of(plan) if rule.id != by_rank}
    second = f"holds too, but {by_rank} is tried first"
    assert {loser.rule: loser.reason for loser in outcome.losers} == {
        name: reason or second for name, reason in reasons.items()
    }
    table = table_for(plan.listeners[0].hosts, parsed.host)
    by_table = next((rule.id for rule in table.rules if mismatch(rule, parsed) is None), None)
    assert by_table == outcome.rule
    group = group_for(path_groups(table.rules), parsed.matched_path)
    by_group = None
    for candidate in group.candidates if group else ():
        rule = candidate.rule
        if candidate.test_path:
            assert isinstance(rule.match.path, RegexPath)
            if not matches_whole(rule.match.path.value, parsed.path):
                continue
        why = mismatch(rule, parsed)
        assert why is None or not why.startswith(("host", "path")), "a group implies hosts and paths"
        if why is None:
            by_group = rule.id
            break
    assert by_group == outcome.rule


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_four_ways_agree(data: st.DataObject) -> None:
    plan = data.draw(plans())
    for request in data.draw(st.lists(requests(plan), min_size=1, max_size=12)):
        check(plan, request)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_covered_rules_never_serve(data: st.DataObject) -> None:
    plan = data.draw(plans())
    rules = rules_of(plan)
    dead = {cover.rule.id: cover for cover in find_shadowed(rules, lambda _: ("web",))}
    for request in data.draw(st.lists(requests(plan, odd=False), min_size=5, max_size=15)):
        assert simulate(plan, request).rule not in dead


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_coverage_by_look_up_finds_what_comparing_all_pairs_finds(data: st.DataObject) -> None:
    rules = rules_of(data.draw(plans()))
    found = {cover.rule.id for cover in find_shadowed(rules, lambda _: ("web",))}
    alive: list[Rule] = []
    wanted = set()
    for rule in rules:
        hosts = set(covering_hosts(rule.host))
        if any(earlier.host in hosts and covers(earlier.match, rule.match) for earlier in alive):
            wanted.add(rule.id)
        else:
            alive.append(rule)
    assert found == wanted


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_overlaps_by_look_up_are_those_of_all_pairs(data: st.DataObject) -> None:
    def both(pairs: Iterator[tuple[Rule, Rule]]) -> list[tuple[str, str]]:
        return [(one.id, other.id) for one, other in pairs if fulfilled(one, other)]

    rules = rules_of(data.draw(plans()))
    assert both(overlaps(rules)) == both(combinations(rules, 2))


def fulfilled(one: Rule, other: Rule) -> bool:
    for draft in overlapping_drafts(one, other):
        try:
            parsed = parse_request(draft.request("web"))
        except RefusedError:
            continue
        if mismatch(one, parsed) is None and mismatch(other, parsed) is None:
            return True
    return False
