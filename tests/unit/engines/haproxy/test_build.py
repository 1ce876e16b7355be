"""haproxy.cfg and its maps: shapes, topology fields of lines, verdicts on places."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lbgen.engines.api import Level
from lbgen.engines.haproxy import ENGINE, matching
from lbgen.engines.haproxy.backend_selection import choices
from lbgen.engines.haproxy.matching import RouteKey
from lbgen.engines.haproxy.upstreams import weights
from lbgen.plan.model import (
    Balance,
    HeaderEdits,
    HostPattern,
    Match,
    Plan,
    Pool,
    Respond,
    Rewrite,
    Route,
    Target,
    Timeouts,
)
from lbgen.plan.path_conditions import EVERY_PATH
from tests.support import plans
from tests.support.plans import by_match, endpoint, equals, exact, forward, prefix, route

NO = HeaderEdits()


def pool(name: str, *more_weights: int) -> Pool:
    return plans.pool(name, *(endpoint(port=8000 + n, weight=w) for n, w in enumerate(more_weights or (1,))))


def plan(*routes: tuple[Route, HostPattern | None, Match], pools: tuple[Pool, ...] = (pool("p"), pool("q"))) -> Plan:
    rules = [(match, route, host) for route, host, match in routes]
    return by_match(rules, pools, address="0.0.0.0")  # noqa: S104


def files(of: Plan) -> dict[str, str]:
    return {file.name: file.text for file in ENGINE.render(of, "2.8")}


def test_only_a_route_for_every_path_leaves_no_request_without_one():
    lacks_route = "deny deny_status 404"
    assert lacks_route not in files(plan((route("all", forward("p")), None, prefix("/"))))["haproxy.cfg"]
    assert lacks_route in files(plan((route("api", forward("p")), None, prefix("/api"))))["haproxy.cfg"]


def test_every_line_has_a_place_and_the_same_plan_the_same_bytes():
    made = plan(
        (route("api", forward("p"), 0, request_headers=HeaderEdits(set=(("x-a", "b"),))), None, prefix("/api")),
        (route("all", forward("q"), 1), HostPattern("a.example"), prefix("/")),
    )
    first, second = ENGINE.render(made, "2.8"), ENGINE.render(made, "2.8")
    assert first == second
    for file in first:
        assert len(file.origins) == file.text.count("\n"), file.name
    config = first[0]
    places = dict(zip(config.text.splitlines(), config.origins, strict=True))
    assert places["    http-request set-header x-a b if { var(txn.route) -m str api }"] == "routes[0]"
    assert places["    server s1 10.0.0.1:8000"].startswith("pools.")
    assert places["frontend web from http"] == "listeners.web"


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules are looked up, as where there are many."""
    monkeypatch.setattr(matching, "MAX_LISTED", 0)


def routing(of: Plan) -> list[str]:
    """The statements that set the route."""
    lines = files(of)["haproxy.cfg"].splitlines()
    return [line.strip().removeprefix("http-request ") for line in lines if "set-var(txn.route)" in line]


def test_few_rules_are_tried_in_order_of_precedence():
    made = plan(
        (route("api", forward("p")), HostPattern("a.example"), prefix("/api")),
        (route("all", forward("q"), 1), None, prefix("/")),
    )
    assert routing(made) == [
        "set-var(txn.route) str(api) if { var(txn.host) -m str a.example } { path,concat(/) -m beg -- /api/ }",
        "set-var(txn.route) str(all) if !routed",
    ]


def test_a_rule_of_a_domain_and_all_below_it_is_tried_once_behind_those_of_its_hosts():
    shop, below, www = HostPattern("x.example"), HostPattern("x.example", wildcard=True), HostPattern("www.x.example")
    api, apex = route("api", forward("p")), route("apex", forward("q"), 1)
    made = plan((api, shop, prefix("/api")), (api, below, prefix("/api")), (apex, www, prefix("/")))
    assert routing(made) == [
        "set-var(txn.route) str(apex) if { var(txn.host) -m str www.x.example }",
        "set-var(txn.route) str(api) if !routed { str(.),concat(,txn.host) -m end .x.example } "
        "{ path,concat(/) -m beg -- /api/ }",
    ]


def test_rules_stay_apart_where_one_between_them_has_to_win_on_one_host_and_lose_on_another():
    one, other = HostPattern("a.x.example"), HostPattern("x.example", wildcard=True)
    wide, narrow = route("wide", forward("p")), route("narrow", forward("q"), 1)
    made = plan(
        (wide, one, exact("/a")), (narrow, one, prefix("/")), (wide, other, exact("/a")), (narrow, other, exact("/b"))
    )
    assert len(routing(made)) == 4


def test_a_path_with_an_escape_is_looked_up_as_it_may_be_written_in_two_ways():
    assert "maps/web.exact.map" in files(plan((route("a", forward("p")), None, exact("/%C3"))))


@pytest.mark.usefixtures("looked_up")
def test_hosts_are_looked_up_and_an_apex_is_not_below_its_wildcard():
    made = plan(
        (route("deep", forward("p")), HostPattern("a.example", wildcard=True), prefix("/")),
        (route("wide", forward("q"), 1), HostPattern("example", wildcard=True), prefix("/")),
    )
    rendered = files(made)
    assert rendered["maps/web.wildcards.map"].splitlines()[1:] == ["a.example *.a.example", "example *.example"]
    assert "a.example *.example" in rendered["maps/web.hosts.map"]
    assert "example *" in rendered["maps/web.hosts.map"].splitlines()
    two, one = "field(-1,.,2)", "field(-1,.,1)"
    assert rendered["haproxy.cfg"].index(two) < rendered["haproxy.cfg"].index(one)


@pytest.mark.usefixtures("looked_up")
def test_hosts_with_the_same_rules_share_a_table():
    made = plan(*((route("all", forward("p")), HostPattern(f"h{n}.example"), prefix("/")) for n in range(5)))
    rendered = files(made)
    assert rendered["maps/web.prefix.map"].splitlines()[1:] == ["h0.example|/ all"]
    assert len(rendered["maps/web.hosts.map"].splitlines()) == 6


@pytest.mark.usefixtures("looked_up")
def test_conditions_are_tried_only_where_a_path_leaves_a_choice():
    canary = (equals("x-canary", "true"),)
    made = plan(
        (route("canary", forward("q")), None, prefix("/api", headers=canary)),
        (route("api", forward("p"), 1), None, prefix("/api")),
        (route("rest", forward("p"), 2), None, prefix("/")),
    )
    rendered = files(made)
    assert rendered["maps/web.prefix.map"].splitlines()[1:] == ["/api/ c1:api", "/ rest"]
    line = "set-var(txn.route) str(canary) if { var(txn.set) -m str c1 } { req.hdr(x-canary) -m str -- true }\n"
    assert line in rendered["haproxy.cfg"]


def test_a_match_of_many_conditions_fits_on_a_line():
    headers = tuple(equals(f"x-{n}", "v") for n in range(12))
    rendered = files(plan((route("all", forward("p")), None, prefix("/", headers=headers))))
    assert all(len(line.split()) < 64 for line in rendered["haproxy.cfg"].splitlines())


def test_many_routes_of_one_pool_share_its_servers_and_its_statements():
    routes = []
    for n in range(200):
        edits = HeaderEdits(set=(("x-tenant", f"t{n}"),))
        action = forward("p", rewrite=Rewrite(prefix=f"/v{n}"))
        routes.append((route(f"r{n}", action, n, request_headers=edits), None, prefix(f"/t{n}")))
    rendered = files(plan(*routes))
    config = rendered["haproxy.cfg"]
    assert config.count("\nbackend ") == 1
    assert len(config.splitlines()) < 125
    assert "r7 t7" in rendered["maps/web.request.1.set.map"]


def test_pools_with_other_times_get_a_backend_of_their_own():
    slow = replace(forward("p"), timeouts=Timeouts(1_000, 60_000, 60_000))
    made = plan((route("a", forward("p")), None, prefix("/a")), (route("b", slow, 1), None, prefix("/b")))
    config = files(made)["haproxy.cfg"]
    assert "backend p from http" in config
    assert "backend p:2 from http" in config


def test_an_answer_that_the_log_tells_by_its_backend_has_one():
    made = plan(
        (route("off", Respond(503, "off\n", ())), None, exact("/off")), (route("p", forward("p"), 1), None, prefix("/"))
    )
    assert "\nbackend route:web:off from http\n" in files(made)["haproxy.cfg"]


@given(st.integers(1, 256), st.integers(1, 256), st.integers(1, 256))
def test_each_target_of_a_split_gets_its_share(one: int, two: int, three: int) -> None:
    weights = (one, two, three)
    targets = tuple(Target("p", weight, NO, "") for weight in weights)
    route_key = RouteKey("r", "r", -1, "", EVERY_PATH)
    made = plan((route("r", replace(forward("p"), targets=targets)), None, prefix("/")))
    left, shares = Fraction(1), []
    for choice in reversed(list(choices({"r": route_key}, made))):
        share = left * Fraction(choice.target.weight, choice.before + choice.target.weight)
        shares.append(share)
        left -= share
    assert shares[::-1] == [Fraction(weight, sum(weights)) for weight in weights]


def test_weights_keep_their_ratio():
    assert weights(pool("p", 95, 5)) == [95, 5]
    drawn = replace(pool("p", 200, 100, 0), balance=Balance.RANDOM)
    assert weights(drawn) == [256, 128, 0]


def test_a_text_with_line_separators_of_unicode_is_one_line():
    said = Respond(200, "one\u2028two\u2029three\n", (("content-type", "text/plain"),))
    edits = HeaderEdits(set=(("x-a", "b\u2028c"),))
    made = plan((route("a", said, response_headers=edits), None, prefix("/")))
    for file in ENGINE.render(made, "2.8"):
        assert len(file.origins) == file.text.count("\n")
    assert "one\u2028two\u2029three" in files(made)["haproxy.cfg"]


def test_verdicts_on_places():
    uneven = replace(forward("p"), timeouts=Timeouts(1_000, 60_000, 5_000))
    long = Respond(200, "x" * 20_000, (("content-type", "text/plain"),))
    made = plan(
        (route("a", uneven), None, prefix("/")),
        (route("b", long, 1), None, exact("/b")),
        pools=(pool("p", 1),),
    )
    found = {(o.field, o.verdict.level, o.feature) for o in ENGINE.objections(made, "2.8")}
    assert found == {
        ("routes[0].timeouts", Level.APPROXIMATE, "timeouts.idle"),
        ("routes[1].respond", Level.REFUSED, None),
    }
