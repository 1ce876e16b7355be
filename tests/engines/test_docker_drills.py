"""The drills of test_drills with engine and agent in containers; endpoints are processes in another one's network.

The times are those of the contract and do not allow for a machine that is late, so each drill has three attempts.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from docker.types import IPAMConfig, IPAMPool

import lbgen
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import helper_image, images
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.engines.test_drills import FALL, FIRST, RISE, Endpoints, drill
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, first_port, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docker import DockerClient

pytestmark = [*IN_CONTAINERS, AS_ROOT, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("drills")
PORTS = first_port(1_950)
ATTEMPTS = 3


@dataclass
class Serving:
    """The stack, as the local drills know an engine."""

    daemon: DockerClient
    port: int
    folder: Path

    def address(self, listener: str) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def directory(self) -> Path:
        """Where the agent's log is, for what went wrong."""
        [agent] = [x.handle for x in list_containers(self.daemon, NAME) if x.record.role is Role.AGENT]
        (self.folder / "agent.log").write_bytes(agent.logs())
        return self.folder


@pytest.fixture
def ends(daemon: DockerClient) -> Iterator[Endpoints]:
    """Processes in the network of a container that only sleeps."""
    helper = images.ensure_helper(daemon, lambda text: None)
    host = f"10.242.{os.getpid() % 250}.11"
    pool = IPAMConfig(pool_configs=[IPAMPool(subnet=f"{host.rpartition('.')[0]}.0/24")])
    with ExitStack() as stack:
        network = daemon.networks.create(f"room-{NAME}", ipam=pool)
        stack.callback(network.remove)
        made = daemon.containers.create(
            helper, list(helper_image.WAIT_ARGV), name=f"{NAME}-room", stop_signal="SIGKILL"
        )
        stack.callback(made.remove, force=True)
        network.connect(made, ipv4_address=host)
        made.start()
        made.reload()
        yield Endpoints(host, stack, ("nsenter", "-n", "-t", str(made.attrs["State"]["Pid"])))


def topology(port: int, host: str) -> lbgen.Topology:
    checks = {"path": "/", "interval": "200ms", "timeout": "150ms", "fall": FALL, "rise": RISE}
    every = [{"address": f"{host}:{FIRST + number}"} for number in range(3)]
    return lbgen.load(
        {
            "version": 1,
            "name": NAME,
            "containers": {"networks": [f"room-{NAME}"]},
            "listeners": {"db": {"port": port, "mode": "l4"}},
            "pools": {"db": {"endpoints": every, "health": {"active": checks}, "stand_ins": False}},
            "routes": [{"name": "db", "listeners": ["db"], "forward": "db"}],
        }
    )


@pytest.mark.drill
@pytest.mark.parametrize("engine", ["nftables", "nginx"])
def test_an_endpoint_is_out_and_back_in_time(
    engine: str, daemon: DockerClient, ends: Endpoints, tmp_path: Path
) -> None:
    port = free_port("127.0.0.1", PORTS)
    with lbgen.up(topology(port, ends.host), engine=engine, runtime="docker", accept=("all",)):
        figures = drill(ends, Serving(daemon, port, tmp_path), ATTEMPTS)
    print(engine, figures)  # noqa: T201
