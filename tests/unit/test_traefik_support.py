"""Traefik's answers: every feature has one, and places that features do not tell are objected to."""

from __future__ import annotations

from dataclasses import replace

from lbgen.engines.api import Level
from lbgen.engines.traefik import ENGINE
from lbgen.engines.traefik.support import SUPPORT
from lbgen.plan.features import Feature
from lbgen.plan.model import (
    Balance,
    Endpoint,
    Forward,
    HeaderEdits,
    L4Rule,
    Listener,
    Mode,
    Plan,
    Pool,
    Protocol,
    Route,
    Target,
    Timeouts,
)


def l4_plan(idle: int) -> Plan:
    endpoint = Endpoint("127.0.0.1", 5432, 1, "pools.db.endpoints[0]", is_ip=True)
    forward = Forward((Target("db", 1, HeaderEdits(), "routes[0].forward"),), Timeouts(1000, 0, idle))
    listener = Listener(
        "db",
        "127.0.0.1",
        5432,
        Mode.L4,
        Protocol.TCP,
        "listeners.db",
        l4_rules=(L4Rule("db.0", 0, "db", None, (), "routes[0]"),),
    )
    pools = (Pool("db", Balance.ROUND_ROBIN, (endpoint,), "pools.db"),)
    return Plan("db", (listener,), pools, (Route("db", 0, forward, "routes[0]"),))


def test_every_feature_is_answered_for_every_version():
    for version in ENGINE.versions:
        assert set(SUPPORT[version]) == set(Feature)


def test_idle_time_on_l4_is_approximate_and_named():
    (found,) = ENGINE.objections(l4_plan(60_000), "3.7")
    assert found.verdict.level is Level.APPROXIMATE
    assert (found.field, found.feature) == ("routes[0].timeouts.idle", Feature.TIMEOUT_IDLE)


def test_no_idle_time_on_l4_is_fine():
    assert ENGINE.objections(l4_plan(0), "3.7") == ()


def test_l4_alone_needs_no_plugin():
    files = {file.name: file.text for file in ENGINE.render(l4_plan(0), "3.7")}
    assert sorted(files) == ["dynamic/tcp.yaml", "traefik.yaml"]
    assert "plugin" not in files["traefik.yaml"].lower()


def test_l4_waits_for_ever_without_a_connect_time_and_keeps_half_closed_connections():
    plan = l4_plan(0)
    route = plan.routes[0]
    assert isinstance(route.action, Forward)
    endless = replace(route, action=replace(route.action, timeouts=Timeouts(0, 0, 0)))
    text = {f.name: f.text for f in ENGINE.render(replace(plan, routes=(endless,)), "3.7")}["dynamic/tcp.yaml"]
    assert 'dialTimeout: "2562047h"' in text
    assert 'terminationDelay: "2562047h"' in text
