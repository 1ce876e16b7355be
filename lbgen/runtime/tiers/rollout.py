"""A topology of tiers -> a stack for each replica of each tier, the tiers behind first; their change, and their end.

Replicas come before the tier in front learns of them, and go after it has forgotten them, so that no request is lost.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Severity, without_errors
from lbgen.engines.api import Engine, engine_of, local_engines, runs_in_kernel, target_version
from lbgen.engines.verdicts import judge
from lbgen.plan import tiers as planned
from lbgen.plan.model import Plan
from lbgen.plan.overlay import with_metrics, with_real_endpoints, with_version
from lbgen.plan.tier_links import placeholder_addresses
from lbgen.plan.tier_simulation import l4_fronts
from lbgen.plan.tiers import Tier
from lbgen.runtime.common import readiness
from lbgen.runtime.common.driver import (
    RELOAD_SECONDS,
    Action,
    Driver,
    GroupDecision,
    PartChange,
    PartKind,
    Progress,
    ReloadOptions,
    Result,
    Step,
    UpOptions,
)
from lbgen.runtime.common.route_probes import make_probes
from lbgen.runtime.common.selection import ensure_runs_here
from lbgen.runtime.common.state import StackState, lock
from lbgen.runtime.tiers import group
from lbgen.runtime.tiers.group import Group, Member

if TYPE_CHECKING:
    from lbgen.spec.load import Topology


class TiersRequest(Struct, frozen=True):
    """What `up` is asked for. A tier that names no engine gets the first of `engines` that can serve it; a replica that
    retires has `options.drain` seconds for its open connections."""

    topology: Topology
    replicas: Mapping[str, int]
    engines: tuple[Engine, ...]
    options: UpOptions


def with_name(topology: Topology, name: str | None) -> Topology:
    """Return `topology` under another name; None keeps its own."""
    return topology if name is None else replace(topology, model=topology.model.model_copy(update={"name": name}))


_LOOK_SECONDS = 0.1
_AT_ONCE = 4  # replicas that go
_PORT_TRIES = 3  # another process may take a free port before the replica listens on it


def up(wanted: TiersRequest, driver: Driver, runtime: str) -> Result:
    """Start all tiers, or change them to the desired state. Raises as the drivers do; new stacks are then removed."""
    name = wanted.topology.name
    with lock(f"tiers-{name}"):
        before = group.read(name)
        there = {} if before is None else {x.name: x for x in driver.running(before.names)}
        tiers = planned.tiers(wanted.topology, wanted.replicas, placeholder_addresses(wanted.topology, wanted.replicas))
        engines = {tier.name: choose_engine(tier, wanted, runtime) for tier in tiers}
        now = Group(
            name,
            runtime,
            wanted.options.backends,
            tuple(
                Member(tier.name, n + 1, name, engines[tier.name].name) for tier in tiers for n in range(tier.replicas)
            ),
        )
        group.write(
            now if before is None else replace(now, members=tuple(dict.fromkeys((*before.members, *now.members))))
        )
        work = _Work(wanted, driver, engines, there)
        try:
            work.bring_up(tiers)
        except BaseException:
            if before is None or not work.announced:
                work.undo()
                if before is None:
                    group.remove(name)
                else:
                    group.write(before)
            raise
        gone = [x for key, x in there.items() if key not in now.names]
        work.retire(gone, {x.name: x for x in tiers}, before)
        group.write(now)
        return Result(
            group.state(now, driver),
            (),
            tuple(work.warnings),
            unchanged=not work.changed and not gone,
            reloaded=bool(there) and (work.changed or bool(gone)),
        )


def choose_engine(tier: Tier, wanted: TiersRequest, runtime: str) -> Engine:
    """Choose the engine of a tier before anything starts. Raises LbgenError with the verdicts when none can,
    EngineError LB403, LB436."""
    found: list[Diagnostic] = []
    named = engine_of(tier)
    targets = (named,) if named is not None else wanted.engines
    for target in targets or tuple(local_engines().values()):
        ensure_runs_here(target)
        version = target_version(target, tier.plan.options(target.name).version)
        _, problems = judge(with_version(tier.plan, target.name, version), target, version, wanted.options.accept)
        if not problems and runtime == "local" and runs_in_kernel(target, tier.plan):
            message = f"{target.title} runs in a network namespace, from which no local tier can be reached"
            hint = "take containers (--runtime docker), or another engine"
            raise EngineError(Diagnostic("LB403", message, field=f"tiers.{tier.name}", hint=hint))
        if not problems:
            return target
        found += problems
    raise LbgenError(found)


class _Work:
    """One change of a group; `there` is what ran before, by name."""

    def __init__(
        self, wanted: TiersRequest, driver: Driver, engines: Mapping[str, Engine], there: Mapping[str, StackState]
    ) -> None:
        self.wanted = wanted
        self.driver = driver
        self.engines = engines
        self.there = there
        self.progress = wanted.options.progress
        self.warnings: list[Diagnostic] = []
        self.changed = False
        self.announced = False  # a tier in front has the new replicas, which therefore stay, whatever comes
        self._new: list[StackState] = []
        self._now: dict[str, list[StackState]] = {}

    def bring_up(self, tiers: Sequence[Tier]) -> None:
        """Start the tiers behind first, since those in front need their addresses."""
        places: dict[str, list[dict[str, tuple[str, int]]]] = {}
        entered: dict[str, tuple[str, int]] = {}
        for name in [tier.name for tier in reversed(tiers)]:
            known = {**placeholder_addresses(self.wanted.topology, self.wanted.replicas), **places}
            tier = next(x for x in planned.tiers(self.wanted.topology, self.wanted.replicas, known) if x.name == name)
            places[name] = []
            for number in range(1, tier.replicas + 1):
                state = self._replica(tier, number, tier.replica(number))
                places[name].append(self.driver.listener_addresses(state))
                if tier.entry:
                    entered |= {x.listener: (x.host, x.port) for each in state.engines for x in each.addresses}
        self._through(tiers, entered)

    def _replica(self, tier: Tier, number: int, plan: Plan) -> StackState:
        before = self.there.get(plan.name)
        part = f"{tier.name}-{number}"

        def report(step: Progress) -> None:
            detail = step.detail or ("" if step.engine else part)
            self.progress(replace(step, engine=part if step.engine else "", detail=detail))

        behind = [x for tier in {pool.leads_to[0] for pool in plan.pools if pool.leads_to} for x in self._now[tier]]
        if before is not None:  # before its configuration names them
            self.driver.attach_networks(before, behind)
        # All replicas share this host: those of the second tier serve metrics 100 ports further up, and so on.
        plan = with_metrics(plan, offset=100 * list(self.engines).index(tier.name) + number - 1)
        for remaining in reversed(range(_PORT_TRIES)):
            try:
                shifted = plan if tier.entry else self.driver.plan_behind_front(plan, before)
                options = replace(self.wanted.options, progress=report, insist=True)
                result = self.driver.up(shifted, [self.engines[tier.name]], options)
                break
            except EngineError as error:
                moves = not tier.entry and before is None and all(x.code == "LB404" for x in error.diagnostics)
                if not moves or not remaining:
                    raise
        if before is None:
            self._new.append(result.state)
        self.announced = self.announced or (bool(behind) and before is not None)
        self.driver.attach_networks(result.state, behind)
        self._now.setdefault(tier.name, []).append(result.state)
        self.changed = self.changed or not result.unchanged
        self.warnings += result.warnings
        return result.state

    def _through(self, tiers: Sequence[Tier], entered: Mapping[str, tuple[str, int]]) -> None:
        """Check that every route behind answers through the tier in front. Raises EngineError LB405."""
        for front in l4_fronts(tiers):
            with_stand_ins = {x.pool for state in self._now[front.behind] for x in state.endpoints}
            own = {pool.name for pool in front.plan.pools} - with_stand_ins
            plan = with_real_endpoints(front.plan, own)
            probes = make_probes(plan)
            late = readiness.wait(
                plan,
                probes,
                lambda _, at=front.entry.name: entered[at],  # type: ignore[misc]  # bound early
                seconds=self.wanted.options.seconds,
            )
            found = without_errors(readiness.diagnostics(late, f"through {front.tier}", plan))
            self.warnings += [x for x in found if x not in self.warnings]

    def retire(self, gone: Sequence[StackState], tiers: Mapping[str, Tier], before: Group | None) -> None:
        """Stop the stacks that receive no new traffic, once their connections have drained."""
        if not gone:
            return
        members = {} if before is None else {each.of.name: each for each in before.members}
        inner = {name: tier for name, tier in tiers.items() if not tier.entry}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            leaving = [
                pool.submit(self._shed, state, inner[member.tier].replica(member.replica))
                for state in gone
                if (member := members[state.name]).tier in inner
            ]
            for each in leaving:
                each.result()
        limit = time.monotonic() + self.wanted.options.drain
        left = list(gone)
        while left and time.monotonic() < limit:
            time.sleep(_LOOK_SECONDS)
            left = [state for state in left if self.driver.connections(state)]
        for state in gone:
            self.driver.end(state, lambda step: None)
            detail = "its connections were cut" if state in left else "nothing was left to do"
            self.progress(Progress(Step.STOPPED, members[state.name].of.part, detail))

    def _shed(self, state: StackState, plan: Plan) -> None:
        """Reload a replica that retires: kept connections end with their next response and clients reconnect."""
        if state.alive:
            plan = self.driver.plan_behind_front(plan, state)
            try:
                self.driver.reload(state, plan, ReloadOptions(("all",), lambda step: None, RELOAD_SECONDS))
            except LbgenError as error:
                self.warnings += [replace(each, severity=Severity.WARNING) for each in error.diagnostics]

    def undo(self) -> None:
        """Remove what this change has started."""
        for state in reversed(self._new):
            self.driver.end(state, lambda step: None)


def preview(wanted: TiersRequest, driver: Driver, runtime: str) -> GroupDecision:
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
            found = driver.preview_up(shifted, [engine], replace(wanted.options, insist=True))
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
            parts.append((PartChange(PartKind.ENGINE, each.of.part, Action.REMOVE, "its connections drain first"),))
    return GroupDecision(
        tuple(x for each in reversed(parts) for x in each),
        tuple(reversed(old)),
        tuple(reversed(new)),
        (),
        tuple(warnings),
    )
