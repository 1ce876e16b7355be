"""What engines say of their endpoints -> states, without an engine."""

from __future__ import annotations

import json

import pytest

from lbgen.engines.api import engine
from lbgen.engines.health import Condition, State
from lbgen.runtime.common.health import Member, combine_health

HEAD = "# pxname,svname,status,weight,lastchg,throttle,check_status,check_code,check_desc,last_chk,"


@pytest.mark.parametrize(
    ("row", "state", "reason"),
    [
        ("UP,1,3,,L7OK,200,Layer7 check passed,,", State.UP, ""),
        ("UP 1/2,1,3,,* L7STS,500,Layer7 wrong status,Internal Server Error,", State.UP, ""),
        ("UP,0,3,,L7OK,200,Layer7 check passed,,", State.DRAINING, ""),
        ("UP,1,3,40,L7OK,200,Layer7 check passed,,", State.STARTING, ""),
        ("no check,1,3,,,,,,", State.UP, ""),
        ("DOWN,1,3,,* L7STS,503,Layer7 wrong status,Busy,", State.DOWN, "Layer7 wrong status: Busy 503"),
        ("DOWN 1/2,0,3,,L4CON,,Layer4 connection problem,refused,", State.DOWN, "Layer4 connection problem: refused"),
        ("DOWN,1,3,,L4OK,,Layer4 check passed,,", State.EJECTED, ""),
        ("MAINT,1,3,,,,,,", State.EJECTED, ""),
        ("MAINT (resolution),1,3,,,,,,", State.DOWN, "its name has no address"),
    ],
)
def test_the_states_of_haproxy(row: str, state: State, reason: str) -> None:
    text = "\n".join([HEAD, f"p,s2,{row}", f"p:2,s1,{row}", f"p,BACKEND,{row}"])
    found = engine("haproxy").health({"p": ["a:1", "b:1"]}, {"/;csv": text})
    assert {key: (each.state, each.reason) for key, each in found.items()} == {("p", 1): (state, reason)}


def host(address: str, name: str = "", **health: object) -> dict[str, object]:
    at = {"socket_address": {"address": address, "port_value": 80}}
    return {"address": at, "hostname": name, "health_status": {"eds_health_status": "HEALTHY"} | health}


def test_the_states_of_envoy() -> None:
    others = [
        host("10.0.0.2", failed_active_health_check=True),
        host("10.0.0.3", eds_health_status="DRAINING"),
        host("10.0.0.4", failed_outlier_check=True),
        host("10.0.1.1", "web"),
        host("10.0.1.2", "web", failed_active_health_check=True),
    ]
    clusters = [
        {"name": "p@1s", "host_statuses": [host("10.0.0.1"), *others]},
        {"name": "p@2s", "host_statuses": [host("10.0.0.1", failed_outlier_check=True), *others]},
    ]
    places = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80", "web:80", "gone:80"]
    (path,) = engine("envoy").status_paths
    found = engine("envoy").health({"p": places}, {path: json.dumps({"cluster_statuses": clusters})})
    assert [found["p", n].state for n in range(6)] == ["ejected", "down", "draining", "ejected", "up", "down"]
    assert found["p", 4].reason == "1 of its 2 addresses are not"
    assert found["p", 5].reason == "its name has no address"
    assert engine("envoy").health({"p": places}, {path: "<html>"}) == {}


def test_envoy_clusters_of_no_pool_are_skipped() -> None:
    wait = {"address": {"envoy_internal_address": {"server_listener_name": "lbgen-wait"}}, "health_status": {}}
    clusters = [{"name": "lbgen-wait", "host_statuses": [wait]}, {"name": "p", "host_statuses": [host("10.0.0.1")]}]
    (path,) = engine("envoy").status_paths
    found = engine("envoy").health({"p": ["10.0.0.1:80"]}, {path: json.dumps({"cluster_statuses": clusters})})
    assert {key: each.state for key, each in found.items()} == {("p", 0): "up"}


def test_what_nobody_tells_is_unknown() -> None:
    members = (Member("p", "web:80", "127.0.0.1:26000", True), Member("q", "web:80", "web:80", False))
    agent = {("p", "127.0.0.1:26000"): Condition(State.DOWN, 1000.0, "refused")}
    first, second = combine_health("nginx", None, members, None, agent)
    assert (first.endpoint, first.address, first.state, first.reason) == (
        "web:80",
        "127.0.0.1:26000",
        "down",
        "refused",
    )
    assert (second.state, second.reason) == ("unknown", "nginx does not report it, and no agent checks it")
    servers = {"p@file": "http://127.0.0.1:26000", "q@file": "http://web:80"}
    up = json.dumps([{"name": name, "serverStatus": {url: "UP"}} for name, url in servers.items()])
    traefik = engine("traefik")
    states = [x.state for x in combine_health("Traefik", traefik, members, {traefik.status_paths[0]: up}, {})]
    assert states == ["up", "unknown"]
    assert {x.reason for x in combine_health("Traefik", traefik, members, None, {})} == {"Traefik does not answer"}
