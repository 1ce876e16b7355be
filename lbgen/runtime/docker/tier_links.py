"""Links between tiers of containers: addresses, networks and open connections of a stack behind another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lbgen.records import replace
from lbgen.runtime.common import ports
from lbgen.runtime.docker import images, network, traffic_switch
from lbgen.runtime.docker.client import connect, docker_errors
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.inspect import ContainerState

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.plan.model import Plan
    from lbgen.runtime.common.state import StackState

_SHARED = "container:"


def plan_behind_front(plan: Plan, before: StackState | None) -> Plan:
    """`plan` on the ports it had in `before`, else on free ones: they are published on this host's loopback too."""
    had = {} if before is None else {a.listener: a.port for x in before.engines for a in x.addresses}
    moved = ports.on_ports(plan, had)
    return replace(moved, listeners=tuple(replace(x, address_written=False) for x in moved.listeners))


def listener_addresses(state: StackState) -> dict[str, tuple[str, int]]:
    """(address in the stack's own network, port) by listener."""
    client = connect()
    found = {}
    for engine in state.engines:
        if isinstance(engine, ContainerState):
            there = _networked(client, engine.container)
            host = there.attrs["NetworkSettings"]["Networks"][network.name(state.name)]["IPAddress"]
            found.update({each.listener: (str(host), each.port) for each in engine.addresses})
    return found


def attach_networks(front: StackState, behind: Sequence[StackState]) -> None:
    """Connect the engines of `front` to the networks of the stacks behind it, unless they are connected."""
    client = connect()
    joined = False
    for engine in front.engines:
        if not isinstance(engine, ContainerState):
            continue
        there = _networked(client, engine.container)
        for stack in behind:
            name = network.name(stack.name)
            if name not in there.attrs["NetworkSettings"]["Networks"]:
                with docker_errors(f"letting {there.name} into the network {name}"):
                    client.networks.get(name).connect(there)
                joined = True
    if joined:
        traffic_switch.route_joined_networks(
            client,
            front.name,
            list_containers(client, front.name),
            lambda: images.ensure_helper(client, lambda text: None),
        )


def _networked(client: DockerClient, name: str) -> Container:
    """The container that has the network namespace of container `name`: itself, or the one that it joins."""
    with docker_errors(f"looking at the container {name}"):
        found = client.containers.get(name)
        mode = str(found.attrs["HostConfig"]["NetworkMode"])
        return client.containers.get(mode.removeprefix(_SHARED)) if mode.startswith(_SHARED) else found
