"""A tier behind direct forwarding: its replicas, the ports that they have for the front, and which cannot be one."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.state import Address
from lbgen.runtime.docker import external_networks, traffic_switch
from lbgen.runtime.docker.labels import Record, Role
from lbgen.runtime.docker.traffic_switch import JoinedAddresses

HOST = "10.214.7.200"
ADDRESSES = (Address("http", "l7", "127.0.0.1", 8081, "http"), Address("dns", "l4", "127.0.0.1", 5300, "udp"))


def front() -> lbgen.Plan:
    topology = lbgen.load("examples/hybrid-edge/kernel.yaml")
    edge, _ = lbgen.tiers(topology, {"web": 1}, {"web": [{"http": (HOST, 8081)}]})
    return edge.plan


def found(monkeypatch: pytest.MonkeyPatch, detail: str) -> dict[str, external_networks.Replica]:
    engine = Record("hybrid-web-1", Role.ENGINE, "", engine="x", addresses=ADDRESSES, detail=detail)
    networks = {"lbgen-hybrid-web-1": {"IPAddress": HOST}}
    holder = SimpleNamespace(
        labels=Record("hybrid-web-1", Role.PORTS, "").labels(), attrs={"NetworkSettings": {"Networks": networks}}
    )
    every = SimpleNamespace(containers=SimpleNamespace(list=lambda **asked: [holder]))
    monkeypatch.setattr(external_networks, "docker_errors", lambda what: nullcontext())
    monkeypatch.setattr(external_networks, "list_containers", lambda *asked: [SimpleNamespace(record=engine)])
    return external_networks.find_replicas(every, front())


def test_a_front_reaches_each_listener_at_a_port_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = found(monkeypatch, json.dumps({"drain": "SIGQUIT", "teardown": []}))[HOST]
    assert [replica.port(8081), replica.port(5300)] == [63_001, 63_002]
    joined = JoinedAddresses(("10.214.3.100",), ("10.214.3.100",))
    rules = traffic_switch.nft_rules(HOST, [(8081, "tcp"), (5300, "udp")], HOST, joined=joined).splitlines()
    assert [x for x in rules if "10.214.3.100" in x] == [
        f"ip daddr 10.214.3.100 tcp dport 8081 dnat to {HOST}",
        f"ip daddr 10.214.3.100 udp dport 5300 dnat to {HOST}",
        f"ip daddr 10.214.3.100 tcp dport 63001 dnat to {HOST}:8081",
        f"ip daddr 10.214.3.100 udp dport 63002 dnat to {HOST}:5300",
    ]


def test_a_replica_in_the_kernel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match=r"LB403.*hybrid-web-1 forwards in the kernel"):
        found(monkeypatch, json.dumps({"teardown": [["nft", "delete"]]}))
