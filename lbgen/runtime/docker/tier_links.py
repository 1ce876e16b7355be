"""Links between tiers of containers: addresses, networks and open connections of a stack behind another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.records import replace
from lbgen.runtime.common import ports
from lbgen.runtime.docker import images, network, traffic_switch
from lbgen.runtime.docker.client import connect, docker_errors
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.inspect import ContainerState
from lbgen.runtime.docker.labels import STACK, Record, Role

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


class Replica(Struct, frozen=True):
    """A stack behind another one: the container that has its network namespace, and the ports of its listeners."""

    stack: str
    holder: Container
    ports: tuple[int, ...]

    def port(self, port: int) -> int:
        """Where a front with direct forwarding reaches the listener at `port`."""
        return traffic_switch.direct_port(self.ports, port)


def find_replicas(client: DockerClient, plan: Plan) -> dict[str, Replica]:
    """The running replicas of tiers to which pools of `plan` lead, by address. EngineError LB403 for one whose rules in
    the kernel would have to rewrite what the front has rewritten; LB421."""
    hosts = {end.host for pool in plan.pools if pool.leads_to for end in pool.endpoints}
    if not hosts:
        return {}
    found = {}
    with docker_errors("listing containers"):
        every = client.containers.list(filters={"label": STACK}, ignore_removed=True)
    for each in every:
        stack = str(each.labels[STACK])
        record = Record.from_labels(each.labels)
        joined = each.attrs["NetworkSettings"]["Networks"].get(network.name(stack)) or {}
        if record is None or record.role is not Role.PORTS or joined.get("IPAddress") not in hosts:
            continue
        engines = [x.record for x in list_containers(client, stack) if x.record.role is Role.ENGINE]
        if any(map(traffic_switch.is_kernel, engines)):
            message = f"{stack} forwards in the kernel, which direct forwarding in front of it leaves no room for"
            raise EngineError(Diagnostic("LB403", message, hint="take another engine for that tier"))
        ports = tuple(x.port for engine in engines for x in engine.addresses)
        found[str(joined["IPAddress"])] = Replica(stack, each, ports)
    return found


def route_networks(client: DockerClient, stack: str) -> None:
    """Have a stack's engine serve what comes to the addresses of its container in joined networks. EngineError LB403,
    LB421."""
    traffic_switch.route_joined_networks(
        client, stack, list_containers(client, stack), lambda: images.ensure_helper(client, lambda text: None)
    )


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
    """Connect the engines of `front` to the networks of the stacks behind it, unless they are connected. With direct
    forwarding the replicas are on the front's network instead."""
    client = connect()
    if any(each.record.role is Role.ENDPOINT_RULES for each in list_containers(client, front.name, labels_only=True)):
        return
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
        route_networks(client, front.name)


def _networked(client: DockerClient, name: str) -> Container:
    """The container that has the network namespace of container `name`: itself, or the one that it joins."""
    with docker_errors(f"looking at the container {name}"):
        found = client.containers.get(name)
        mode = str(found.attrs["HostConfig"]["NetworkMode"])
        return client.containers.get(mode.removeprefix(_SHARED)) if mode.startswith(_SHARED) else found
