"""As in test_udp_ready, in containers: an L4 listener is there when `up --no-backends` returns, though docker takes
connections for it before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.runtime.docker.converge import found
from lbgen.runtime.docker.labels import Role
from lbgen.runtime.docker.sockets import sockets
from lbgen.runtime.local.ports import free_port
from tests.daemon import IN_CONTAINERS, first_port, name_of
from tests.engines.test_udp_ready import dns

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [*IN_CONTAINERS, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("udp")
PORTS = first_port(1_150)


@pytest.mark.parametrize("name", ["envoy", "traefik"])
def test_up_returns_when_the_port_is_bound(name: str, daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS)
    lbgen.up(dns(NAME, port), engine=name, runtime="docker", backends=False, accept=("all",))
    [holder] = [each for each in found(daemon, NAME) if each.record.role is Role.PORTS]
    assert (port, "udp") in {(each.port, each.protocol) for each in sockets(holder)}


def test_up_returns_when_a_port_for_tcp_is_bound(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS)
    data = {
        "version": 1,
        "name": NAME,
        "listeners": {"raw": {"port": port, "mode": "l4"}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:53"}]}},
        "routes": [{"name": "raw", "listeners": ["raw"], "forward": "app"}],
    }
    lbgen.up(lbgen.load(data), engine="envoy", runtime="docker", backends=False, accept=("all",))
    [holder] = [each for each in found(daemon, NAME) if each.record.role is Role.PORTS]
    assert (port, "tcp") in {(each.port, each.protocol) for each in sockets(holder) if each.state == "0A"}
