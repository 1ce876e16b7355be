"""Three ways to the winning rule agree: the oracle by rank, the host tables, the path groups."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbgen.plan.coverage import covered, covers
from lbgen.plan.http import RefusedError, parse
from lbgen.plan.matching import why_not
from lbgen.plan.model import HostTable, PathKind, Plan, Rule
from lbgen.plan.precedence import PathGroup, covering, path_groups, wider
from lbgen.plan.regex import full
from lbgen.plan.simulate import Request, simulate
from tests.strategies import plans, requests, rules_of


def table_for(tables: tuple[HostTable, ...], host: str | None) -> HostTable:
    """The way an engine picks: exact, else longest wildcard, else the last."""
    for table in tables:
        if table.host is None or (host is not None and table.host.covers(host)):
            return table
    raise AssertionError("the hostless table is missing")


def group_for(groups: tuple[PathGroup, ...], path: str) -> PathGroup | None:
    known = {(group.kind, group.path): group for group in groups}
    if (PathKind.EXACT, path) in known:
        return known[PathKind.EXACT, path]
    return next((known[PathKind.PREFIX, p] for p in covering(path) if (PathKind.PREFIX, p) in known), None)


def check(plan: Plan, request: Request) -> None:
    outcome = simulate(plan, request)
    try:
        parsed = parse(request)
    except RefusedError:
        assert outcome.route is None
        return
    table = table_for(plan.listeners[0].hosts, parsed.host)
    by_table = next((rule.id for rule in table.rules if why_not(rule, parsed) is None), None)
    assert by_table == outcome.rule
    group = group_for(path_groups(table.rules), parsed.matched_path)
    by_group = None
    for candidate in group.candidates if group else ():
        rule = candidate.rule
        if candidate.test_path:
            assert rule.match.path.kind is PathKind.REGEX
            if not full(rule.match.path.value, parsed.path):
                continue
        why = why_not(rule, parsed)
        assert why is None or not why.startswith(("host", "path")), "a group implies hosts and paths"
        if why is None:
            by_group = rule.id
            break
    assert by_group == outcome.rule


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_three_ways_agree(data: st.DataObject) -> None:
    plan = data.draw(plans())
    for request in data.draw(st.lists(requests(plan), min_size=1, max_size=12)):
        check(plan, request)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_covered_rules_never_serve(data: st.DataObject) -> None:
    plan = data.draw(plans())
    rules = rules_of(plan)
    dead = {cover.rule.id: cover for cover in covered(rules, lambda _: ("web",))}
    for request in data.draw(st.lists(requests(plan, odd=False), min_size=5, max_size=15)):
        assert simulate(plan, request).rule not in dead


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_coverage_by_look_up_finds_what_comparing_all_pairs_finds(data: st.DataObject) -> None:
    rules = rules_of(data.draw(plans()))
    found = {cover.rule.id for cover in covered(rules, lambda _: ("web",))}
    alive: list[Rule] = []
    wanted = set()
    for rule in rules:
        hosts = set(wider(rule.host))
        if any(earlier.host in hosts and covers(earlier.match, rule.match) for earlier in alive):
            wanted.add(rule.id)
        else:
            alive.append(rule)
    assert found == wanted
