"""Containers and engines that are replaced at the same published ports: what clients lose is asserted to be nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import lbgen
from lbgen import api
from lbgen.diagnostics import DifferenceError, EngineError, UsageError
from lbgen.plan.resolve import plan as resolve
from lbgen.runtime import swap as exchange
from lbgen.runtime.common.driver import UpOptions
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import network, traffic_switch
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.support.daemon import IN_CONTAINERS, first_port, name_of
from tests.support.sample import sample
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [
    *IN_CONTAINERS,
    pytest.mark.usefixtures("nothing_left"),
]
NAME = name_of("swapped")
PORTS = first_port(700)
DRAIN = 60.0  # seconds at most: it ends with the last connection


def data(port: int, mode: str = "l7") -> dict[str, Any]:
    route = {"name": "all", "forward": "app"} | ({"listeners": ["web"]} if mode == "l4" else {})
    return {
        "version": 1,
        "name": NAME,
        "listeners": {"web": {"port": port, "mode": mode}},
        "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}, {"address": "10.9.0.2:80"}]}},
        "routes": [route],
    }


def swap(made: lbgen.Topology, new: str) -> api.SwapResult:
    """Without the verification before it."""
    plan = resolve(made)
    stack, old = exchange.engine_to_replace(plan, new, None, None)
    how = UpOptions(backends=True, accept=("all",), progress=lambda step: None, drain=DRAIN)
    result = exchange.swap(plan, stack, old, new, how)
    assert result.swapped is not None
    print(result.swapped)  # noqa: T201
    return result.swapped


def test_engines_take_each_others_place() -> None:
    port = free_port("127.0.0.1", PORTS)
    topology = data(port)
    topology["routes"][0]["access"] = {"allow": [str(network.ADDRESSES)]}  # where containers see this host
    made = lbgen.load(topology)
    lbgen.up(made, engine="nginx", runtime="docker", accept=("all",))
    with traffic(port) as seen:
        for name in ("haproxy", "envoy", "traefik", "nginx"):
            cost = swap(made, name)
            assert (cost.failed, cost.gap_ms, cost.dropped, cost.cut) == (0, 0, 0, 0), cost
            assert cost.requests
            assert cost.sockets == 2, cost
            [stack] = api.ps(NAME)
            assert [each.name for each in stack.engines] == [name]
    assert not seen.lost, seen.lost[:3]
    assert lbgen.up(made, engine="nginx", runtime="docker", accept=("all",)).unchanged


@pytest.mark.drill
def test_the_kernel_and_a_process_take_each_others_place() -> None:
    port = free_port("127.0.0.1", PORTS + 20)
    made = lbgen.load(data(port, "l4"))
    lbgen.up(made, engine="haproxy", runtime="docker", accept=("all",))
    for name in ("nftables", "haproxy", "nftables"):
        cost = swap(made, name)
        assert (cost.failed, cost.gap_ms, cost.dropped, cost.cut) == (0, 0, 0, 0), cost
        assert cost.sockets == 2, cost
    assert lbgen.up(made, engine="nftables", runtime="docker", accept=("all",)).unchanged


@pytest.mark.parametrize("name", sample(("nginx", "envoy"), ("nginx",)))
def test_other_limits_cost_no_request(name: str, daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS + 40)
    made = data(port)
    lbgen.up(lbgen.load(made), engine=name, runtime="docker", accept=("all",))
    holder = next(each.handle.id for each in list_containers(daemon, NAME) if each.record.role is Role.PORTS)
    with traffic(port) as seen:
        for pids in (300, 301):  # there and back between the two addresses
            made["containers"] = {"pids": pids}
            assert lbgen.up(lbgen.load(made), engine=name, runtime="docker", accept=("all",)).replaced
            [there] = [each for each in list_containers(daemon, NAME) if each.record.role is Role.ENGINE]
            assert there.handle.attrs["HostConfig"]["PidsLimit"] == pids
    assert seen.good
    assert not seen.lost, seen.lost[:3]
    assert holder == next(each.handle.id for each in list_containers(daemon, NAME) if each.record.role is Role.PORTS)


def test_an_engine_that_does_not_serve_is_taken_back(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS + 60)
    made = data(port)
    lbgen.up(lbgen.load(made), engine="nginx", runtime="docker", accept=("all",))
    before = {each.handle.id for each in list_containers(daemon, NAME)}
    made["engines"] = {"haproxy": {"global": "no-such-word"}}
    with traffic(port) as seen, pytest.raises(EngineError, match=r"(?s)LB403.*no-such-word.*LB413.*nginx"):
        swap(lbgen.load(made), "haproxy")
    assert not seen.lost, seen.lost[:3]
    assert {each.handle.id for each in list_containers(daemon, NAME)} == before
    assert httpx.get(f"http://127.0.0.1:{port}/").json()["pool"] == "app"


@pytest.mark.drill
def test_engines_that_differ_are_not_exchanged() -> None:
    port = free_port("127.0.0.1", PORTS + 80)
    made = data(port)
    made["engines"] = {"haproxy": {"frontend": "http-response set-header x-odd 1"}}
    lbgen.up(lbgen.load(made), engine="nginx", runtime="docker", accept=("all",))
    with pytest.raises(DifferenceError, match=r"(?s)LB414.*curl") as raised:
        lbgen.up(lbgen.load(made), swap="haproxy", accept=("all",))
    assert raised.value.exit_code == 4
    [stack] = api.ps(NAME)
    assert [each.name for each in stack.engines] == ["nginx"]


def test_processes_are_not_exchanged() -> None:
    made = lbgen.load(data(free_port("127.0.0.1", PORTS + 90)))
    with lbgen.up(made, engine="haproxy", runtime="local"), pytest.raises(UsageError, match=r"LB415.*lbgen down"):
        lbgen.up(made, swap="nginx")


@pytest.mark.drill
def test_an_up_that_was_killed_between_two_engines_is_put_right(
    daemon: DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port("127.0.0.1", PORTS + 95)
    made = data(port)
    lbgen.up(lbgen.load(made), engine="haproxy", runtime="docker", accept=("all",))

    def killed(self: object) -> None:
        os._exit(9)

    if not (child := os.fork()):
        monkeypatch.setattr(traffic_switch.TrafficSwitch, "switch", killed)
        lbgen.up(lbgen.load(made | {"containers": {"pids": 300}}), engine="haproxy", runtime="docker", accept=("all",))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert sum(each.record.role is Role.ENGINE for each in list_containers(daemon, NAME)) == 2
    assert lbgen.up(lbgen.load(made), engine="haproxy", runtime="docker", accept=("all",)).state.alive
    assert httpx.get(f"http://127.0.0.1:{port}/").json()["pool"] == "app"
    assert len(list_containers(daemon, NAME)) == 3  # the engine, its ports, the stand-ins


LISTED = """\
tcp
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: C80AD60A:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 1 1 0 100 0 0 10 0
   1: C80AD60A:1F90 010AD60A:C350 01 00000000:00000000 00:00000000 00000000 65534        0 2 1 0 20 4 30 10 -1
udp
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
   7: 0200007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 65534        0 3 2 0 0
"""


def test_sockets_are_read_as_the_kernel_lists_them() -> None:
    every = tuple(network.parse(LISTED))
    assert network.listening(every, "10.214.10.200") == {(8080, "tcp")}
    assert network.listening(every, "127.0.0.2") == {(53, "udp")}
    assert network.connected(every, "10.214.10.200", {8080}) == 1
