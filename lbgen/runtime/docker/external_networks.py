"""Resolve endpoints that are containers on docker networks which a stack joins: they need no stand-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.diagnostics import NOWHERE, Diagnostic, EngineError, Severity
from lbgen.plan.overlay import with_real_endpoints
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.labels import STACK

if TYPE_CHECKING:
    from docker import DockerClient

    from lbgen.plan.model import Plan

_NAMELESS = frozenset({"bridge", "host", "none"})  # docker's own networks, without DNS


def resolve_endpoints(client: DockerClient, plan: Plan, *, backends: bool) -> Plan:
    """`plan` with real endpoints for each pool that needs no stand-ins: for all without `backends`, else, unless the
    pool says otherwise, where an endpoint is a container, running or not, of a network that the stack joins.

    Raises EngineError LB423 when a network does not exist, LB421.
    """
    names = set[str]()
    for index, name in enumerate(plan.networks):
        names |= _container_names(client, plan, name, f"containers.networks[{index}]")
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


def _container_names(client: DockerClient, plan: Plan, network: str, field: str) -> set[str]:
    """The names under which docker resolves the containers of a network, without those of the stack."""
    from docker.errors import NotFound

    found: set[str] = set()
    with docker_errors(f"looking at the network {network}"):
        try:
            there = client.networks.get(network)
        except NotFound:
            there = None
        if there is None or there.name in _NAMELESS:
            span = dict(plan.spans).get(field, NOWHERE)
            if there is not None:
                raise EngineError(
                    Diagnostic("LB423", f"containers have no names on the network {network}", span, field)
                )
            hint = f"docker network create {network}, or leave it out"
            raise EngineError(Diagnostic("LB423", f"there is no docker network {network}", span, field, hint))
        for each in client.containers.list(all=True, filters={"network": there.id}, ignore_removed=True):
            if each.labels.get(STACK) == plan.name:
                continue
            aliases = (each.attrs["NetworkSettings"]["Networks"].get(there.name) or {}).get("Aliases") or ()
            for name in (str(each.name), *aliases):
                found |= {name, f"{name}.{there.name}"}
    return found
