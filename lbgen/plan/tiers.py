"""The plans of a tiered topology, one for each tier, in the order of the traffic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import counted
from lbgen.plan.expand import ExpandedTopology
from lbgen.plan.inheritance import with_inherited
from lbgen.plan.model import Listener, Plan, TierOf
from lbgen.plan.resolve import build_plan, expand_checked
from lbgen.plan.spans import Spans
from lbgen.plan.tier_links import (
    ReplicaAddresses,
    entry_listeners,
    front_to_back,
    tier_edges,
    with_replica_counts,
    with_replica_endpoints,
)

if TYPE_CHECKING:
    from lbgen.spec.load import Topology
    from lbgen.spec.model import TopologyModel


class Tier(Struct, frozen=True):
    """`plan` is what each of the `replicas` serves; `engine` is the topology's choice, or None. `entry`: clients
    connect to this tier."""

    name: str
    plan: Plan
    engine: str | None
    replicas: int
    entry: bool

    def __repr__(self) -> str:
        return f"<Tier {self.name} on {self.engine or 'any engine'}: {counted({'replica': self.replicas})}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its replicas."""
        return tuple(self.replica(n + 1).name for n in range(self.replicas))

    def replica(self, number: int) -> Plan:
        """The plan of a replica, counted from 1."""
        of = TierOf(self.plan.tier.topology if self.plan.tier else "", self.name, number)
        return replace(self.plan, name=of.name, tier=of)


def tiers(
    topology: Topology, replicas: Mapping[str, int] | None = None, addresses: ReplicaAddresses | None = None
) -> tuple[Tier, ...]:
    """The tiers of `topology`, those in front first; none when it has none.

    `replicas` overrides the topology's numbers by tier; `addresses` are the addresses of running replicas.
    Raises LbgenError with all cross-object errors (LB2xx), UsageError LB225 (unknown tier, or too many replicas).
    """
    topology = with_replica_endpoints(with_replica_counts(with_inherited(topology), replicas or {}), addresses)
    model = topology.model
    if not model.tiers:
        return ()
    expanded = expand_checked(topology)
    edges = tier_edges(model, expanded)
    behind = {to for _, to in edges}
    return tuple(
        Tier(
            name, _plan(topology, expanded, name), model.tiers[name].engine, model.tiers[name].count, name not in behind
        )
        for name in front_to_back(tuple(model.tiers), edges)
    )


def _plan(topology: Topology, expanded: ExpandedTopology, tier: str) -> Plan:
    """The plan of one tier. Routes keep their index in the file."""
    model = expanded.model
    listeners = {name: each for name, each in model.listeners.items() if each.tier == tier}
    on = tuple(tuple(name for name in names if name in listeners) for names in expanded.listeners)
    used = {
        to.pool
        for route, names in zip(model.routes, on, strict=True)
        for to in (*(route.forward or ()), *(route.mirror or ()))
        if names
    }
    part = model.model_copy(
        update={
            "listeners": listeners,
            "pools": {name: pool for name, pool in model.pools.items() if name in used},
            "engines": {name: each for name, each in model.engines.items() if name not in _engines_beside(model, tier)},
        }
    )
    plan = build_plan(replace(topology, model=part), ExpandedTopology(part, on))
    of = TierOf(model.name, tier)
    found = tuple(_public(model, expanded, each) for each in plan.listeners)
    field = f"tiers.{tier}.engine"
    spans = Spans(lambda: (*plan.spans, (field, topology.span(field))), plan.spans.origin)
    return replace(plan, name=of.name, tier=of, listeners=found, spans=spans)


def _engines_beside(model: TopologyModel, tier: str) -> set[str | None]:
    """The engines that only other tiers name, where this tier names its own: their settings concern no engine of
    this tier."""
    own = (model.tiers or {})[tier].engine
    return {each.engine for each in (model.tiers or {}).values()} - {own} if own is not None else set()


def _public(model: TopologyModel, expanded: ExpandedTopology, listener: Listener) -> Listener:
    """`listener` with the port that clients connect to, where all use the same."""
    found = {model.listeners[name].port for name in entry_listeners(model, expanded, listener.name)}
    return replace(listener, public_port=found.pop()) if len(found) == 1 else listener


def parts(topology: Topology, replicas: Mapping[str, int] | None = None) -> tuple[Tier, ...]:
    """As `tiers`; a topology without tiers is one tier with an empty name. Raises as it does."""
    if topology.model.tiers is not None:
        return tiers(topology, replicas)
    topology = with_replica_counts(with_inherited(topology), replicas or {})
    return (Tier("", build_plan(topology, expand_checked(with_replica_endpoints(topology))), None, 1, entry=True),)
