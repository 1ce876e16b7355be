"""Links between tiers: replicas of a tier as endpoints of pools, and the order in which tiers follow each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.plan.expand import ExpandedTopology
from lbgen.spec.load import Topology
from lbgen.spec.model import MOST_REPLICAS, TopologyModel
from lbgen.spec.network import Address
from lbgen.spec.pool import Endpoint, Pool

# By tier, for each replica: the IP address and port of each listener by name.
ReplicaAddresses = Mapping[str, Sequence[Mapping[str, tuple[str, int]]]]


def with_replica_counts(topology: Topology, replicas: Mapping[str, int]) -> Topology:
    """`topology` with other numbers of replicas. Raises UsageError LB225 for an unknown tier or number."""
    model = topology.model
    there = dict(model.tiers or {})
    for name, count in replicas.items():
        if name not in there:
            known = f"there is {', '.join(there)}" if there else "the topology has no tiers"
            raise UsageError(Diagnostic("LB225", f"there is no tier {name!r} to have replicas", hint=known))
        if not 1 <= count <= MOST_REPLICAS:
            raise UsageError(Diagnostic("LB225", f"{count} replicas of {name}", hint=f"1 to {MOST_REPLICAS}"))
        there[name] = there[name].model_copy(update={"replicas": count, "hosts": None})
    if not replicas:
        return topology
    return replace(topology, model=model.model_copy(update={"tiers": there}))


def with_replica_endpoints(topology: Topology, addresses: ReplicaAddresses | None = None) -> Topology:
    """`topology` with endpoints for pools that lead to tiers. A pool that leads to no known tier gets a placeholder, so
    that checks can go on."""
    model = topology.model
    if not any(pool.tier for pool in model.pools.values()):
        return topology
    pools = {
        name: pool if pool.tier is None else _filled(model, pool, (addresses or {}).get(pool.tier))
        for name, pool in model.pools.items()
    }
    return replace(topology, model=model.model_copy(update={"pools": pools}))


def placeholder_addresses(
    topology: Topology, replicas: Mapping[str, int]
) -> dict[str, list[dict[str, tuple[str, int]]]]:
    """Addresses of replicas that do not run yet, from 192.0.2.0/24 (RFC 5737)."""
    model = topology.model
    counts = {name: replicas.get(name) or tier.count for name, tier in (model.tiers or {}).items()}
    return {
        tier: [
            {name: (f"192.0.2.{n + 1}", x.port) for name, x in model.listeners.items() if x.tier == tier}
            for n in range(count)
        ]
        for tier, count in counts.items()
    }


def target_listener(model: TopologyModel, pool: Pool) -> str | None:
    """The listener that a pool leads to; None where the topology does not determine it."""
    if pool.listener is not None:
        return pool.listener
    names = [name for name, listener in model.listeners.items() if listener.tier == pool.tier]
    return names[0] if len(names) == 1 else None


def _filled(model: TopologyModel, pool: Pool, addresses: Sequence[Mapping[str, tuple[str, int]]] | None) -> Pool:
    tier = (model.tiers or {}).get(pool.tier or "")
    name = target_listener(model, pool)
    listener = model.listeners.get(name or "")
    if tier is None or listener is None:
        found = [Address("nowhere.invalid", 1, is_ip=False)]
    elif addresses is not None:
        found = [Address(*each[name or ""], is_ip=True) for each in addresses]
    else:
        hosts = tier.hosts or [f"{model.name}-{pool.tier}-{n + 1}" for n in range(tier.count)]
        found = [_address(host, listener.port) for host in hosts]
    endpoints = [Endpoint.model_construct(address=each, weight=1, backup=False) for each in found]
    return pool.model_copy(update={"endpoints": endpoints, "listener": name})


def _address(host: str, port: int) -> Address:
    """The address of `host`, which is written as in a Host header: IPv6 in brackets."""
    literal = host.startswith("[") or host.replace(".", "").isdecimal()
    return Address(host.strip("[]"), port, literal)


def tier_edges(model: TopologyModel, expanded: ExpandedTopology) -> tuple[tuple[str, str], ...]:
    """The (from, to) pairs of tiers that routes connect by their pools."""
    found: dict[tuple[str, str], None] = {}
    for index, route in enumerate(model.routes):
        for name in expanded.listeners[index]:
            tier = model.listeners[name].tier
            for target in (*(route.forward or ()), *(route.mirror or ())):
                pool = model.pools.get(target.pool)
                if tier is not None and pool is not None and pool.tier in (model.tiers or {}):
                    found[tier, pool.tier or ""] = None
    return tuple(found)


def front_to_back(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The tiers in topological order, front first, else in the order of the file; without those in a circle."""
    waits = {name: {one for one, other in edges if other == name} for name in names}
    ready, done = deque(name for name in names if not waits[name]), []
    while ready:
        name = ready.popleft()
        done.append(name)
        for other in names:
            if name in waits[other]:
                waits[other].discard(name)
                if not waits[other]:
                    ready.append(other)
    return tuple(done)


def entry_listeners(model: TopologyModel, expanded: ExpandedTopology, listener: str) -> tuple[str, ...]:
    """The listeners through which clients reach this one; empty when clients connect to it."""
    found: dict[str, None] = {}
    asked, seen = deque([listener]), {listener}
    while asked:
        here = asked.popleft()
        before = _in_front(model, expanded, here)
        if not before and here != listener:
            found[here] = None
        asked += [name for name in before if name not in seen]
        seen.update(before)
    return tuple(found)


def _in_front(model: TopologyModel, expanded: ExpandedTopology, listener: str) -> tuple[str, ...]:
    """The listeners whose routes lead to this one."""
    pools = {
        name
        for name, pool in model.pools.items()
        if pool.tier is not None
        and pool.tier == model.listeners[listener].tier
        and target_listener(model, pool) == listener
    }
    return tuple(
        dict.fromkeys(
            name
            for index, route in enumerate(model.routes)
            if any(to.pool in pools for to in route.forward or ())
            for name in expanded.listeners[index]
        )
    )
