"""Resolve endpoints that are containers on docker networks which a stack joins: they need no stand-ins. Connect those
of direct forwarding, among them the replicas of a tier, to the stack's own network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import NOWHERE, Diagnostic, EngineError, Severity
from lbgen.plan.model import Plan
from lbgen.plan.overlay import with_endpoints, with_real_endpoints
from lbgen.runtime.common import ports
from lbgen.runtime.common.state import StackState
from lbgen.runtime.docker import images, network, traffic_switch
from lbgen.runtime.docker.client import connect, docker_errors
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.inspect import ContainerState
from lbgen.runtime.docker.labels import STACK, Record, Role

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container


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


_ATTACHED = range(100, 200)  # last bytes of addresses of endpoints in the stack's own network
_NAMELESS = frozenset({"bridge", "host", "none"})  # docker's own networks, without DNS


def resolve_endpoints(client: DockerClient, plan: Plan, *, backends: bool) -> Plan:
    """`plan` with real endpoints for each pool that needs no stand-ins: for all without `backends`, else, unless the
    pool says otherwise, where an endpoint is a container, running or not, of a network that the stack joins.

    Raises EngineError LB423 when a network does not exist, LB421.
    """
    names = _containers(client, plan)
    if not backends:
        return with_real_endpoints(plan)
    open_pools = [pool for pool in plan.pools if pool.stand_ins is None]
    there = [x.name for x in open_pools if any(e.host in names for e in x.endpoints)]
    return with_real_endpoints(plan, there)


def missed_containers(client: DockerClient, plan: Plan) -> tuple[Diagnostic, ...]:
    """LB423 as advice for each pool with stand-ins one of whose endpoints names a container of another network."""
    hosts = {e.host: (pool, e) for pool in plan.pools if pool.stand_ins is None for e in pool.endpoints if not e.is_ip}
    found = []
    with docker_errors("listing containers"):
        every = client.containers.list(ignore_removed=True) if hosts else []
    for each in every:
        networks = sorted(set(each.attrs["NetworkSettings"]["Networks"]) - _NAMELESS)
        if each.name in hosts and networks and STACK not in each.labels:
            pool, endpoint = hosts[each.name]
            message = f"pool {pool.name} is served by stand-ins; the container {each.name} is on {', '.join(networks)}"
            hint = f"containers: {{ networks: [{networks[0]}] }} joins it"
            span = dict(plan.spans).get(f"{endpoint.field}.address", NOWHERE)
            found.append(Diagnostic("LB423", message, span, f"{endpoint.field}.address", hint, Severity.ADVICE))
    return tuple(found)


def attach_endpoints(client: DockerClient, plan: Plan, *, connect: bool = True) -> Plan:
    """`plan` with those of its real endpoints that are containers, by name or address, at addresses of the stack's own
    network, to which they are connected (with `connect`). They stay connected until `down`. Replicas of a tier have
    ports of their own there.

    Raises EngineError LB421, LB423.
    """
    own = network.name(plan.name)
    subnet = network.ensure(client, plan.name) if connect else network.find(client, plan.name)
    replicas = find_replicas(client, plan)
    there = _containers(client, plan) | {host: each.holder for host, each in replicas.items()}
    joined: list[str] = []
    addresses: dict[str, tuple[str, int]] = {}
    with docker_errors(f"connecting endpoints to the network {own}"):
        every = client.containers.list(all=True, filters={"network": own}, ignore_removed=True)
        guests = {str(each.id): each.attrs["NetworkSettings"]["Networks"].get(own) for each in every}
        hosts = {key: host for key, guest in guests.items() if (host := network.fixed_address(guest))}
        for endpoint in (x for pool in plan.pools if pool.real for x in pool.endpoints):
            if endpoint.host not in there or subnet is None:
                continue
            each = there[endpoint.host]
            if str(each.id) not in hosts:
                free = (str(subnet[n]) for n in _ATTACHED if str(subnet[n]) not in hosts.values())
                hosts[str(each.id)] = host = next(free, "")
                if not host:
                    raise EngineError(Diagnostic("LB421", f"more than {len(_ATTACHED)} endpoints on {own}"))
                if connect:
                    client.networks.get(own).connect(each, ipv4_address=host)
                    joined += [replicas[endpoint.host].stack] if endpoint.host in replicas else []
            replica = replicas.get(endpoint.host)
            port = endpoint.port if replica is None else replica.port(endpoint.port)
            addresses[endpoint.field] = hosts[str(each.id)], port
    for stack in joined:
        route_networks(client, stack)
    named = {f"{field}.address" for field in addresses}
    resolved = {use for use in plan.uses_of("pool.endpoint_names") if use.field in named}
    uses = tuple(use for use in plan.uses if use not in resolved)
    return replace(with_endpoints(plan, addresses), uses=uses)


def _containers(client: DockerClient, plan: Plan) -> dict[str, Container]:
    """The containers of the networks that a stack joins by the names under which docker resolves them, and by address;
    without those of the stack. EngineError LB421, LB423."""
    found: dict[str, Container] = {}
    for index, name in enumerate(plan.networks):
        found |= _containers_of(client, plan, name, f"containers.networks[{index}]")
    return found


def _containers_of(client: DockerClient, plan: Plan, joins: str, field: str) -> dict[str, Container]:
    from docker.errors import NotFound

    found: dict[str, Container] = {}
    with docker_errors(f"looking at the network {joins}"):
        try:
            there = client.networks.get(joins)
        except NotFound:
            there = None
        if there is None or there.name in _NAMELESS:
            span = dict(plan.spans).get(field, NOWHERE)
            if there is not None:
                raise EngineError(Diagnostic("LB423", f"containers have no names on the network {joins}", span, field))
            hint = f"docker network create {joins}, or leave it out"
            raise EngineError(Diagnostic("LB423", f"there is no docker network {joins}", span, field, hint))
        for each in client.containers.list(all=True, filters={"network": there.id}, ignore_removed=True):
            if each.labels.get(STACK) == plan.name:
                continue
            joined = each.attrs["NetworkSettings"]["Networks"].get(there.name) or {}
            for name in (str(each.name), *(joined.get("Aliases") or ())):
                found |= {name: each, f"{name}.{there.name}": each}
            if address := joined.get("IPAddress"):
                found[str(address)] = each
    return found
