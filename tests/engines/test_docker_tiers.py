"""Tiers as containers: nodes whose addresses the edge knows, and numbers that change. Needs a docker daemon."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx
import pytest

import lbgen
from lbgen import api
from lbgen.runtime import registry
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import external_networks
from lbgen.runtime.tiers import group
from tests.support.daemon import IN_CONTAINERS, first_port, name_of
from tests.support.hybrid import hybrid
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

pytestmark = [*IN_CONTAINERS]
NAME = name_of("tiers")
PORTS = first_port(300)


@pytest.fixture(autouse=True)
def nothing_left(daemon: DockerClient) -> Iterator[None]:
    yield
    for stack in registry.list_stacks(NAME):
        api.Stack(stack).down()
    assert not [x.name for x in daemon.containers.list(all=True, ignore_removed=True) if NAME in x.name]
    assert not [x.name for x in daemon.networks.list() if NAME in x.name]
    assert not [x.name for x in daemon.volumes.list() if NAME in x.name]
    assert group.read(NAME) is None


def forwarded_for(port: int) -> str:
    headers = {name.lower(): value for name, value in httpx.get(f"http://127.0.0.1:{port}/x").json()["headers"]}
    assert headers["x-forwarded-port"] == str(port)
    return str(headers["x-forwarded-for"])


def test_nodes_come_and_go_behind_an_edge_and_no_request_is_lost(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS)
    topology = hybrid(NAME, port)
    stack = lbgen.up(topology, runtime="docker")
    names = {each.name for each in daemon.containers.list(ignore_removed=True) if NAME in each.name}
    assert {f"lbgen-{NAME}-edge-1-haproxy", f"lbgen-{NAME}-web-1-nginx", f"lbgen-{NAME}-web-2-nginx"} <= names
    found = group.read(NAME)
    assert found is not None
    edge, *nodes = (part for _, part in group.state(found, registry.driver("docker")).parts)
    clients = forwarded_for(port)
    assert clients not in {host for node in nodes for host, _ in external_networks.listener_addresses(node).values()}
    assert clients.rpartition(".")[0] == external_networks.listener_addresses(edge)["public"][0].rpartition(".")[0], (
        "who came to the edge"
    )
    assert clients != external_networks.listener_addresses(edge)["public"][0], "and not the edge itself"
    assert lbgen.up(topology, runtime="docker").unchanged
    with traffic(port) as seen:
        assert len(lbgen.up(topology, runtime="docker", replicas={"web": 3}).engines) == 4
        assert len(lbgen.up(topology, runtime="docker", replicas={"web": 1}).engines) == 2
        time.sleep(0.5)
    assert seen.lost == []
    assert seen.good > 100
    assert len(stack.engines) == 3


@pytest.mark.drill
def test_the_kernel_in_front_of_two_nodes() -> None:
    port = free_port("127.0.0.1", PORTS + 20)
    stack = lbgen.up(hybrid(NAME, port, edge="nftables"), runtime="docker")
    assert [x.name for x in stack.engines] == ["edge-1", "web-1", "web-2"]
    found = group.read(NAME)
    assert found is not None
    edge, *nodes = (part for _, part in group.state(found, registry.driver("docker")).parts)
    seen = set()
    for _ in range(6):
        seen.add(forwarded_for(port))
    networks = {
        host.rpartition(".")[0] for node in nodes for host, _ in external_networks.listener_addresses(node).values()
    }
    assert {host.rpartition(".")[0] for host in seen} <= networks, "the edge's own addresses, as LB281 says"
    answered = {line.source for line in api.requests(NAME)}
    end = time.monotonic() + 10
    while len(answered) < 2 and time.monotonic() < end:
        answered = {line.source for line in api.requests(NAME)}
        time.sleep(0.2)
    assert answered == {"web-1", "web-2"}
    assert edge.alive
