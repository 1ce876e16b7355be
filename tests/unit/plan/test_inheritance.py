"""Policies and defaults become fields of the routes and pools that inherit them, with the places where they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.diagnostics import LbgenError
from lbgen.plan.inheritance import with_inherited
from lbgen.plan.model import Forward, Plan
from lbgen.plan.resolve import findings
from lbgen.spec.dump import dump_topology

POOLS = {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}, "db": {"endpoints": [{"address": "10.0.0.2:80"}]}}
TCP = {"tcp": {"port": 5432, "mode": "l4"}}
OFFICE = {"access": {"allow": ["10.0.0.0/8"]}}


def topology(*routes: dict[str, Any], **more: Any) -> lbgen.Topology:
    """One listener `web`, pools `app` and `db`."""
    data: dict[str, Any] = {"version": 1, "name": "t", "listeners": {"web": {"port": 8080}}, "pools": POOLS}
    return lbgen.load({**data, "routes": list(routes), **more})


def route(name: str = "app", **fields: Any) -> dict[str, Any]:
    return {"name": name, "forward": "app", **fields}


def same(one: Plan, other: Plan) -> bool:
    """But for what tells a written default from one that is left out."""
    return replace(one, uses=(), listeners=()) == replace(other, uses=(), listeners=())


def test_a_route_has_what_its_policies_say_and_its_own_wins() -> None:
    policies = {
        "office": OFFICE,
        "slow": {"timeouts": {"response": "60s", "idle": "90s"}, "retries": {"max": 2, "on": ["reset"]}},
        "api": {"timeouts": {"response": "5s"}, "max_body": "1MiB"},
    }
    plan = lbgen.plan(
        topology(
            route("all", policies=["office", "slow", "api"], timeouts={"connect": "1s"}),
            route("turned", match=[{"path": {"prefix": "/t"}}], policies=["api", "slow"], max_body="2MiB"),
            policies=policies,
        )
    )
    one, two = plan.routes
    assert isinstance(one.action, Forward)
    assert isinstance(two.action, Forward)
    times = one.action.timeouts
    assert (times.connect, times.response, times.idle) == (1_000, 5_000, 90_000)
    assert one.action.retries is not None
    assert (one.access, one.max_body) == (plan.routes[0].access, 1 << 20)
    assert one.access is not None
    assert (two.action.timeouts.response, two.max_body, two.access) == (60_000, 2 << 20, None)


def test_layers_from_defaults_to_the_route() -> None:
    def said(size: str) -> dict[str, Any]:
        return {"max_body": size}

    layers: dict[str, Any] = {
        "defaults": {"route": said("1MiB")},
        "policies": {"of-listener": said("2MiB"), "first": said("3MiB"), "second": said("4MiB")},
        "max_body": "9MiB",
    }
    guarded = {"web": {"port": 8080, "policies": ["of-listener"]}}
    open_ = {"web": {"port": 8080}}

    def size(listeners: Any, **fields: Any) -> int | None:
        return lbgen.plan(topology(route(**fields), listeners=listeners, **layers)).routes[0].max_body

    assert size(open_) == 1 << 20
    assert size(guarded) == 2 << 20
    assert size(guarded, policies=["first"]) == 3 << 20
    assert size(guarded, policies=["first", "second"]) == 4 << 20
    assert size(guarded, policies=["first", "second"], max_body="5MiB") == 5 << 20
    del layers["defaults"]
    assert size(open_) == 9 << 20, "the topology's own setting is below defaults"


def test_header_edits_merge_by_header() -> None:
    policies = {
        "base": {
            "response_headers": {"set": {"X-A": "base", "x-b": "base"}, "add": {"x-c": "base"}, "remove": ["x-d"]}
        },
        "more": {"response_headers": {"remove": ["x-b", "x-e"]}},
    }
    own = {"set": {"x-c": "own"}, "remove": ["x-f"]}
    made = topology(route(policies=["base", "more"], response_headers=own), policies=policies)
    edits = lbgen.plan(made).routes[0].response_headers
    assert dict(edits.set) == {"x-a": "base", "x-c": "own"}
    assert edits.add == ()
    assert set(edits.remove) == {"x-d", "x-b", "x-e", "x-f"}
    marks = with_inherited(made).marks
    field = "routes[0].response_headers"
    assert marks.origin(f"{field}.set.x-a") == "policies.base.response_headers.set.x-a"
    assert [marks.origin(f"{field}.remove[{n}]") for n in range(4)] == [
        "policies.base.response_headers.remove[0]",
        "policies.more.response_headers.remove[0]",
        "policies.more.response_headers.remove[1]",
        "routes[0].response_headers.remove[0]",
    ]


def test_none_takes_a_policy_away() -> None:
    policies = {"limited": {"rate_limit": {"rate": "1/s", "key": "route"}}, "free": {"rate_limit": "none"}}
    plan = lbgen.plan(
        topology(
            route("a", rate_limit="none"),
            route("b", match=[{"path": {"prefix": "/b"}}], policies=["free"]),
            route("c", match=[{"path": {"prefix": "/c"}}], policies=["free", "limited"]),
            policies=policies,
            listeners={"web": {"port": 8080, "policies": ["limited"]}},
        )
    )
    assert [each.rate_limit is None for each in plan.routes] == [True, True, False]


@pytest.mark.parametrize("field", ["access", "timeouts", "max_body"])
def test_what_holds_always_has_no_none(field: str) -> None:
    with pytest.raises(LbgenError):
        topology(route(**{field: "none"}))


def test_defaults_reach_what_they_concern() -> None:
    defaults = {
        "route": {**OFFICE, "timeouts": {"response": "7s", "idle": "8s"}, "retries": {"max": 1, "on": ["reset"]}},
        "pool": {
            "health": {"active": {"path": "/ok", "interval": "3s"}},
            "connections": {"keepalive": 5, "max_per_endpoint": 9},
            "sticky": {"cookie": "LB"},
        },
    }
    plan = lbgen.plan(
        topology(
            route(),
            {"name": "home", "match": [{"path": {"exact": "/"}}], "redirect": {"path": "/app"}},
            {"name": "db", "listeners": ["tcp"], "forward": "db"},
            defaults=defaults,
            listeners={"web": {"port": 8080}, **TCP},
        )
    )
    app, home, db = plan.routes
    assert isinstance(app.action, Forward)
    assert isinstance(db.action, Forward)
    assert app.action.retries is not None
    assert db.action.retries is None
    assert (db.action.timeouts.idle, app.action.timeouts.response) == (8_000, 7_000)
    assert app.access == home.access == db.access is not None, "a guard reaches each route"
    by_name = {pool.name: pool for pool in plan.pools}
    web, tcp = by_name["app"], by_name["db"]
    assert (web.keepalive, web.max_per_endpoint, tcp.max_per_endpoint) == (5, 9, 9)
    assert web.sticky is not None
    assert tcp.sticky is None
    assert web.active is not None
    assert tcp.active is not None
    assert (web.active.path, tcp.active.path, tcp.active.interval) == ("/ok", None, 3_000)


def test_a_pool_merges_its_settings_with_the_defaults() -> None:
    pool = POOLS["app"] | {"health": {"passive": {"failures": 3, "eject_for": "5s"}}, "sticky": "none"}
    defaults = {"pool": {"health": {"active": {"path": "/ok"}}, "sticky": {"cookie": "LB"}}}
    made = lbgen.plan(topology(route(), pools={"app": pool}, defaults=defaults)).pools[0]
    assert made.active is not None
    assert made.passive is not None
    assert made.sticky is None


def test_listeners_that_disagree_are_an_error() -> None:
    listeners = {"web": {"port": 1}, "inside": {"port": 2, "policies": ["office"]}}
    rest = {"listeners": listeners, "policies": {"office": OFFICE}}

    def errors(**fields: Any) -> list[tuple[str, str]]:
        found = findings(topology(route(**fields), **rest))
        return [(each.code, each.field) for each in found if each.code == "LB235"]

    assert errors() == [("LB235", "routes[0]")]
    with pytest.raises(LbgenError, match="LB235"):
        lbgen.plan(topology(route(), **rest))
    assert errors(listeners=["web"]) == []
    assert errors(listeners=["inside"]) == []
    assert errors(access={"deny": ["192.0.2.0/24"]}) == [], "the route's own is the same on both"
    assert errors(policies=["office"]) == []


def test_a_default_does_not_hide_that_listeners_disagree() -> None:
    made = topology(
        route(),
        listeners={"web": {"port": 1}, "inside": {"port": 2, "policies": ["office"]}},
        policies={"office": OFFICE},
        defaults={"route": {"access": {"deny": ["192.0.2.0/24"]}}},
    )
    assert "LB235" in [each.code for each in findings(made)]


def test_error_pages_of_a_listener_win_over_what_its_routes_inherit() -> None:
    def pages(listener: dict[str, Any], **fields: Any) -> set[str]:
        defaults = {"route": {"error_pages": {"503": {"body": "default"}, "404": {"body": "default"}}}}
        listeners = {"web": {"port": 8080, **listener}}
        plan = lbgen.plan(topology(route(**fields), defaults=defaults, listeners=listeners))
        return {page.body for page in plan.routes[0].error_pages}

    own = {"error_pages": {"503": {"body": "listener"}, "404": {"body": "listener"}}}
    assert pages({}) == {"default"}
    assert pages(own) == {"listener"}
    assert pages(own, error_pages={"503": {"body": "own"}}) == {"own", "listener"}
    assert pages(own, error_pages="none") == set()


def test_findings_stand_where_a_value_is_written_and_come_once() -> None:
    made = topology(
        route("a"),
        route("b", match=[{"path": {"prefix": "/b"}}]),
        policies={"any": {"cors": {"origins": ["*"], "credentials": True}}},
        listeners={"web": {"port": 8080, "policies": ["any"]}},
    )
    said = [(each.code, each.field) for each in findings(made) if each.severity == "error"]
    assert said == [("LB273", "policies.any.cors")]


def test_an_engine_names_the_policy_that_it_refuses() -> None:
    made = topology(
        {"name": "db", "listeners": ["tcp"], "forward": "db"},
        defaults={"pool": {"slow_start": "5s"}},
        listeners=TCP,
    )
    with pytest.raises(LbgenError) as stop:
        lbgen.render(lbgen.plan(made), engine="nftables")
    assert "defaults.pool.slow_start" in [each.field for each in stop.value.diagnostics]


WRITTEN = """
version: 1
name: t
include: [teams.yaml]
listeners: { web: { port: 8080, policies: [office] } }
pools: { app: { endpoints: [{ address: "10.0.0.1:80" }] } }
policies:
  office: { access: { allow: [10.0.0.0/8] } }
routes:
  - { name: app, forward: app, policies: [slow], retries: none }
"""
TEAMS = "policies: { slow: { timeouts: { response: 1m }, retries: { max: 1, on: [reset] } } }\n"
OVER = "policies: { slow: { timeouts: { idle: 2m } } }\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name, text in (("t.yaml", WRITTEN), ("teams.yaml", TEAMS), ("over.yaml", OVER)):
        (tmp_path / name).write_text(text)
    return [tmp_path / "t.yaml", tmp_path / "over.yaml"]


def test_policies_of_included_files_and_overlays(files: list[Path]) -> None:
    made = lbgen.load(files)
    plan = lbgen.plan(made)
    action = plan.routes[0].action
    assert isinstance(action, Forward)
    assert (action.timeouts.response, action.timeouts.idle, action.retries) == (60_000, 120_000, None)
    spans = dict(plan.spans)
    assert Path(spans["routes[0].access"].file).name == "t.yaml"
    values = {each.field: each for each in lbgen.config(made).values}
    assert Path(values["routes[0].timeouts.response"].span.file).name == "teams.yaml"  # type: ignore[union-attr]
    assert Path(values["routes[0].timeouts.idle"].span.file).name == "over.yaml"  # type: ignore[union-attr]
    assert not [field for field in values if field.startswith(("policies", "defaults")) or "].policies" in field]


def test_what_is_written_out_means_the_same(files: list[Path], tmp_path: Path) -> None:
    made = lbgen.load(files)
    text = str(lbgen.config(made))
    (tmp_path / "out.yaml").write_text(text)
    assert same(lbgen.plan(lbgen.load(tmp_path / "out.yaml")), lbgen.plan(made))
    (tmp_path / "dumped.yaml").write_text(dump_topology(made.model))
    assert same(lbgen.plan(lbgen.load(tmp_path / "dumped.yaml")), lbgen.plan(made))
    inherited = with_inherited(made)
    assert with_inherited(inherited) is inherited
    assert made.without("routes[app].policies").replace({"policies.office.access.allow": ["10.1.0.0/16"]})
