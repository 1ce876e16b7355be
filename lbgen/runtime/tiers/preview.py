"""What `up` or `reload` would do to a topology of tiers, replica by replica; nothing that runs is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan import tiers as planned
from lbgen.plan.tier_links import placeholder_addresses
from lbgen.records import replace
from lbgen.runtime.common.decision import Action, GroupDecision, Kind, PartChange
from lbgen.runtime.tiers import group
from lbgen.runtime.tiers.rollout import choose_engine

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic
    from lbgen.plan.tiers import Tier
    from lbgen.runtime.common.driver import Driver, Previewer
    from lbgen.runtime.tiers.request import TiersRequest


def preview(wanted: TiersRequest, driver: Driver, previewer: Previewer, runtime: str) -> GroupDecision:
    """What `rollout.up` would do. A replica that does not run yet has an address of 192.0.2.0/24 here.

    Raises as `rollout.up` and the drivers do while they decide.
    """
    before = group.read(wanted.topology.name)
    there = {} if before is None else {x.name: x for x in driver.running(before.names)}
    ran = () if before is None else before.members
    unknown = placeholder_addresses(wanted.topology, wanted.replicas)
    places = dict(unknown)
    parts: list[tuple[PartChange, ...]] = []
    old: list[Tier] = []
    new: list[Tier] = []
    warnings: list[Diagnostic] = []
    order = [tier.name for tier in planned.tiers(wanted.topology, wanted.replicas, unknown)]
    names: set[str] = set()
    for name in reversed(order):  # as they are started: those in front need the addresses behind
        tier = next(x for x in planned.tiers(wanted.topology, wanted.replicas, places) if x.name == name)
        engine = choose_engine(tier, wanted, runtime)
        for number in range(1, tier.replicas + 1):
            plan = tier.replica(number)
            names.add(plan.name)
            state = there.get(plan.name)
            shifted = plan if tier.entry or state is None else driver.plan_behind_front(plan, state)
            found = previewer.preview_up(shifted, [engine], replace(wanted.options, insist=True))
            parts.append(found.of_replica(f"{tier.name}-{number}"))
            warnings += (x for x in found.warnings if x not in warnings)
            if state is not None:
                places[name] = [*places[name]]
                places[name][number - 1] = driver.listener_addresses(state)
            if number == 1:
                new.append(replace(tier, plan=found.after, engine=engine.name))
                if found.before is not None:
                    mine = [x.engine for x in ran if x.tier == name]
                    old.append(replace(tier, plan=found.before, engine=mine[0], replicas=len(mine)))
    for each in ran:
        if each.of.name in there and each.of.name not in names:
            parts.append((PartChange(Kind.ENGINE, each.of.part, Action.REMOVE, "its connections drain first"),))
    return GroupDecision(
        tuple(x for each in reversed(parts) for x in each),
        tuple(reversed(old)),
        tuple(reversed(new)),
        (),
        tuple(warnings),
    )
