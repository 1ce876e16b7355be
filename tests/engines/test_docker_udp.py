"""As in test_udp_ready, in containers: an L4 listener is there when `up --no-backends` returns, though docker takes
connections for it before."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen import api
from lbgen.api import Progress, Step
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from lbgen.runtime.docker.network import sockets
from tests.engines.test_udp_ready import ENGINES, answer, dns, more
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, first_port, name_of
from tests.support.sample import sample

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [*IN_CONTAINERS, AS_ROOT, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("udp")
PORTS = first_port(1_150)
_STOPPED_SECONDS = 1.5
_STARTS = 5  # a busy machine may bind the port before the test can stop the engine


def up_with_a_slow_start(daemon: DockerClient, topology: lbgen.Topology, name: str) -> list[set[tuple[int, str]]]:
    """What was bound when the engine had just started and was stopped for a while, and what when `up` returned."""
    bound = []

    def look() -> None:
        [holder] = [each for each in list_containers(daemon, NAME) if each.record.role is Role.PORTS]
        waits = [each for each in sockets(holder.handle) if each.state in ("07", "0A")]
        bound.append({(each.port, each.protocol) for each in waits})

    def stop_for_a_while(progress: Progress) -> None:
        if (progress.step, progress.engine) == (Step.STARTED, name):
            top = daemon.containers.get(f"lbgen-{NAME}-{name}").top()
            pids = [int(each[top["Titles"].index("PID")]) for each in top["Processes"]]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            threading.Timer(_STOPPED_SECONDS, lambda: [os.kill(pid, signal.SIGCONT) for pid in pids]).start()
            look()

    lbgen.up(topology, engine=name, runtime="docker", backends=False, accept=("all",), progress=stop_for_a_while)
    look()
    return bound


@pytest.mark.parametrize("protocol", sample(["udp", "tcp"], ["udp"]))
def test_up_returns_when_the_port_is_bound(protocol: str, daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS)
    data = dns(NAME, port).model.model_dump(exclude_unset=True, mode="json")
    data["listeners"]["dns"]["protocol"] = protocol
    for _ in range(_STARTS):
        before, after = up_with_a_slow_start(daemon, lbgen.load(data), "envoy")
        assert (port, protocol) in after
        if (port, protocol) not in before:
            return
        api.down(NAME)
    pytest.fail(f"{_STARTS} starts in a row were too fast to be stopped before the port was bound")


@pytest.mark.parametrize("name", sample((*ENGINES, "nftables"), ("nginx",)))
def test_stand_ins_answer_datagrams(name: str, daemon: DockerClient) -> None:
    topology = dns(NAME, free_port("127.0.0.1", PORTS + 10))
    with lbgen.up(topology, engine=name, runtime="docker", accept=("all",)) as stack:
        assert not [each.message for each in stack.warnings if each.code == "LB405"]
        assert [each.name for each in stack.endpoints] == ["pools.app.endpoints[0]"]
        address = stack.address("dns")
        assert answer(address.host, address.port) == "pools.app.endpoints[0]/udp: hello"
        lbgen.reload(more(topology))
        endpoints = {answer(address.host, address.port) for _ in range(40)}
        assert endpoints == {f"pools.app.endpoints[{place}]/udp: hello" for place in (0, 1)}
