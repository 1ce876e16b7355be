"""Verdicts whose difference no request of a topology can show do not stop it, and excuse nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.conformance.prepare import verdicts_on
from lbgen.engines.api import Level

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

CATCH_ALL = {"name": "rest", "respond": {"status": 404, "body": "Not Found\n"}}
ADD = {"name": "add", "match": [{"path": {"prefix": "/add"}}], "forward": "app"}


def plan_of(*routes: dict[str, Any], profile: str = "production", version: str = "", **web: Any) -> Plan:
    old = {name: {"version": number} for name, _, number in [version.partition(" ")] if name}
    data: dict[str, Any] = {
        "engines": old,
        "version": 1,
        "name": "x",
        "profile": profile,
        "listeners": {"web": {"port": 8080, **web}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": list(routes),
    }
    return lbgen.plan(lbgen.load(data))


def level(plan: Plan, engine: str, feature: str) -> Level:
    (found,) = [x for x in lbgen.explain(plan, engine) if x.feature == feature and not x.place]
    stops = any(found.verdict.note in each.message for each in _stopping(plan, engine))
    assert stops == (found.verdict.level is Level.APPROXIMATE and not found.default)
    return found.verdict.level


def _stopping(plan: Plan, engine: str) -> tuple[lbgen.Diagnostic, ...]:
    try:
        lbgen.render(plan, engine=engine)
    except lbgen.LbgenError as stop:
        return stop.diagnostics
    return ()


ACCESS = {"access": {"allow": ["10.0.0.0/8"]}}


@pytest.mark.parametrize(
    ("routes", "shown"),
    [((ADD, CATCH_ALL), False), ((ADD,), True), ((ADD, {**CATCH_ALL, "hosts": ["x.example"]}), True)],
)
def test_access_where_every_request_meets_a_rule(routes: tuple[dict[str, Any], ...], shown: bool) -> None:
    plan = plan_of(*routes, **ACCESS)
    expected = Level.HABIT if shown else Level.EMULATED
    assert level(plan, "traefik", "listener.access") is expected
    declared = {each.feature for each in verdicts_on(plan, "traefik", "3.7").near}
    assert ("listener.access" in declared) is shown


@pytest.mark.parametrize(
    ("edits", "shown"),
    [
        ({"add": {"x-a": "1"}}, True),
        ({"add": {"x-a": "1"}, "remove": ["x-a"]}, False),
        ({"add": {"x-a": "1", "x-b": "1"}, "remove": ["x-a"]}, True),
        ({"add": {"x-a": "1"}, "set": {"x-a": "2"}, "remove": ["x-a"]}, True),
    ],
)
def test_added_lines_where_no_other_remains(edits: dict[str, Any], shown: bool) -> None:
    expected = Level.APPROXIMATE if shown else Level.EMULATED
    for side in ("request_headers", "response_headers"):
        plan = plan_of({**ADD, side: edits}, CATCH_ALL)
        assert level(plan, "traefik", f"route.{side}.add") is expected


def test_versions_that_nearly_do_it() -> None:
    removed = {**ADD, "request_headers": {"add": {"x-a": "1"}, "remove": ["x-a"]}}
    for routes, shown in (((removed,), Level.EMULATED), (({**ADD, "request_headers": {"add": {"x-a": "1"}}},), None)):
        plan = plan_of(*routes, profile="production", version="nginx 1.22")
        assert level(plan, "nginx", "route.request_headers.add") is (shown or Level.HABIT)
    times = {"timeouts": {"client_body": "5s"}}
    for routes, shown in (((CATCH_ALL,), Level.EMULATED), ((ADD, CATCH_ALL), None)):
        plan = plan_of(*routes, profile="production", version="haproxy 2.6", **times)
        assert level(plan, "haproxy", "listener.timeouts") is (shown or Level.HABIT)


def test_one_field_that_shows_it_is_enough() -> None:
    shown = {**ADD, "name": "second", "match": [{"path": {"prefix": "/b"}}], "request_headers": {"add": {"x-a": "1"}}}
    hidden = {**ADD, "request_headers": {"add": {"x-a": "1"}, "remove": ["x-a"]}}
    assert level(plan_of(hidden, shown), "traefik", "route.request_headers.add") is Level.APPROXIMATE


def test_the_note_says_what_differs_elsewhere() -> None:
    plan = plan_of({**ADD, "request_headers": {"add": {"x-a": "1"}, "remove": ["x-a"]}})
    (found,) = [x for x in lbgen.explain(plan, "traefik") if x.feature == "route.request_headers.add"]
    assert "no request of this topology can show" in found.verdict.note
    assert "replaces those of the client" in found.verdict.note
