"""Traefik's answers: every feature has one, and places that features do not tell are objected to."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from lbgen.engines.api import Level
from lbgen.engines.traefik import ENGINE, tcp_weights
from lbgen.plan.model import (
    Balance,
    ClientTimeouts,
    Endpoint,
    Forward,
    HostPattern,
    Listener,
    Mode,
    Plan,
    Protocol,
    Timeouts,
)
from lbgen.plan.policy import ActiveHealth, PassiveHealth
from lbgen.plan.tls import Certificate, File, ListenerTls
from tests.support.plans import endpoint, forward, on_tcp, pool


def l4_plan(idle: int) -> Plan:
    return on_tcp(forward("db", times=Timeouts(1000, 0, idle)), pool("db", endpoint("127.0.0.1", 5432)))


def test_idle_time_on_l4_is_approximate_and_named():
    (found,) = ENGINE.objections(l4_plan(60_000), "3.7")
    assert found.verdict.level is Level.APPROXIMATE
    assert (found.field, found.feature) == ("routes[0].timeouts.idle", "timeouts.idle")


def test_no_idle_time_on_l4_is_fine():
    assert ENGINE.objections(l4_plan(0), "3.7") == ()


def two_endpoints(plan: Plan) -> tuple[Endpoint, ...]:
    """The second of them is a backup."""
    return tuple(replace(plan.pools[0].endpoints[0], port=port, backup=port == 2) for port in (1, 2))


def test_checks_of_tcp_endpoints_are_the_agents_and_those_of_udp_refused():
    plan = l4_plan(0)
    checks = ActiveHealth(None, None, 1000, 1000, 1, 1, ())
    plan = replace(plan, pools=(replace(plan.pools[0], endpoints=two_endpoints(plan), active=checks),))
    assert ENGINE.objections(plan, "3.7") == ()
    files = {file.name: file.text for file in ENGINE.render(plan, "3.7")}
    order = json.loads(files["agent.json"])
    assert [t["name"] for t in order["pools"][0]["targets"]] == ["127.0.0.1:1", "127.0.0.1:2"]
    assert ENGINE.set_weights(order["steering"], {}) == {tcp_weights.FILE: files[tcp_weights.FILE]}
    udp = replace(plan, listeners=(replace(plan.listeners[0], protocol=Protocol.UDP),))
    assert {o.feature for o in ENGINE.objections(udp, "3.7")} == {"pool.health.active", "pool.backup"}


ONE, OTHER = [["a", "h:1", 3, False], ["b", "h:2", 1, False], ["c", "h:3", 5, True]], [["x", "h:9", 1, False]]


@pytest.mark.parametrize(
    ("groups", "shares", "wanted"),
    [
        ([[1, "p", ONE]], {}, {"a": 3, "b": 1}),
        ([[1, "p", ONE]], {"p": {"h:1": 0}}, {"b": 1}),
        ([[1, "p", ONE]], {"p": {"h:1": 0, "h:2": 0}}, {"c": 5}),
        ([[1, "p", ONE]], {"p": {"h:1": 0, "h:2": 0, "h:3": 0}}, {"r-closed": 1}),
        ([[2, "p", ONE], [1, "q", OTHER]], {}, {"a": 6, "b": 2, "x": 4}),
        ([[2, "p", ONE], [1, "q", OTHER]], {"q": {"h:9": 0}}, {"a": 6, "b": 2, "r-closed": 4}),
    ],
)
def test_endpoints_that_are_up_share_what_their_pool_has(groups, shares, wanted):
    assert dict(tcp_weights.compute_weights("r", groups, shares)) == wanted


def test_what_traefik_cannot_do_on_l4_is_refused_by_name():
    plan = l4_plan(0)
    asked = replace(
        plan.pools[0],
        endpoints=two_endpoints(plan),
        balance=Balance.LEAST_CONNECTIONS,
        passive=PassiveHealth(1, 1000),
    )
    found = {o.feature: o.verdict.level for o in ENGINE.objections(replace(plan, pools=(asked,)), "3.7")}
    assert found == dict.fromkeys(
        (
            "pool.balance.least_connections",
            "pool.health.passive",
            "pool.backup",
        ),
        Level.REFUSED,
    )


def listener(name: str, *certificates: tuple[str, str]) -> Listener:
    """A TLS listener with certificates as (file, name)."""
    pairs = tuple(
        Certificate(File(file), File(f"{file}.key"), (HostPattern(host),), f"listeners.{name}.tls.certificates[{i}]")
        for i, (file, host) in enumerate(certificates)
    )
    return Listener(
        name,
        "127.0.0.1",
        1,
        Mode.L7,
        Protocol.TCP,
        f"listeners.{name}",
        tls=ListenerTls(certificates=pairs),
        timeouts=ClientTimeouts(0, 0, 0),
    )


def test_one_tls_listener_is_as_the_contract_says():
    plan = Plan("t", (listener("a", ("x.crt", "x.test"), ("y.crt", "y.test")),), (), ())
    assert ENGINE.objections(plan, "3.7") == ()


def test_a_second_listeners_first_certificate_is_not_shown_without_a_server_name():
    plan = Plan("t", (listener("a", ("x.crt", "x.test")), listener("b", ("y.crt", "y.test"))), (), ())
    (found,) = ENGINE.objections(plan, "3.7")
    assert (found.field, found.verdict.level) == ("listeners.b.tls", Level.APPROXIMATE)


def test_two_certificates_of_one_name_are_named():
    plan = Plan("t", (listener("a", ("x.crt", "x.test"), ("y.crt", "x.test")),), (), ())
    (found,) = ENGINE.objections(plan, "3.7")
    assert (found.field, found.verdict.level) == ("listeners.a.tls.certificates[1]", Level.REFUSED)


def test_tls_is_rendered_for_its_listener_alone_and_closes_what_it_does_not_know():
    plan = Plan("t", (listener("a", ("x.crt", "x.test"), ("y.crt", "y.test")),), (), ())
    files = {f.name: f.text for f in ENGINE.render(plan, "3.7")}
    assert files["dynamic/tls.yaml"].count("certFile:") == 3  # two, and the first again for clients without a name
    assert "http/1.1" in files["dynamic/tls.yaml"]
    assert "h2" not in files["dynamic/tls.yaml"]
    assert r"!HostSNIRegexp(`^(?:x\.test|y\.test)$`)" in files["dynamic/tls.yaml"]


def test_l4_waits_for_ever_without_a_connect_time_and_keeps_half_closed_connections():
    plan = l4_plan(0)
    route = plan.routes[0]
    assert isinstance(route.action, Forward)
    endless = replace(route, action=replace(route.action, timeouts=Timeouts(0, 0, 0)))
    text = {f.name: f.text for f in ENGINE.render(replace(plan, routes=(endless,)), "3.7")}["dynamic/tcp.yaml"]
    assert "dialTimeout: 2562047h" in text
    assert 'terminationDelay: "-1ms"' in text
