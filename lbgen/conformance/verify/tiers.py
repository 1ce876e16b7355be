"""Verify tiers: requests to a tier through the one in front of it, and one report for all tiers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.conformance.free_ports import FreePorts
from lbgen.conformance.verify.addresses import LOOPBACK
from lbgen.conformance.verify.cases import ScheduledCase
from lbgen.conformance.verify.jobs import Failed, Finished, FrontTier, Job, JobProgress, run_all
from lbgen.conformance.verify.report import Report, UnverifiedEngine
from lbgen.conformance.verify.requests import request_cases
from lbgen.conformance.verify.substitute_certificates import certify
from lbgen.conformance.verify.time_scaling import Scale, choose_scale, scale_times
from lbgen.engines.api import Engine, runs_in_kernel
from lbgen.plan.model import Plan
from lbgen.plan.overlay import with_endpoints, with_ports
from lbgen.plan.tier_links import placeholder_addresses
from lbgen.plan.tier_simulation import Front, l4_fronts
from lbgen.plan.tiers import Tier, tiers
from lbgen.runtime.local.decide import choose
from lbgen.runtime.local.messages import EngineChoice

if TYPE_CHECKING:
    from lbgen.spec.load import Topology

_NODES = 2  # replicas that stand behind the edge, which is enough to tell them apart


def merge_reports(name: str, reports: Sequence[tuple[str, Report]]) -> Report:
    """The reports of all tiers as one; `(label, report)`, and the label comes before the names of engines."""
    every = [
        replace(
            each,
            results=tuple(replace(x, subject=f"{label}: {x.subject}") for x in each.results),
            left=tuple(replace(x, engine=f"{label}: {x.engine}") for x in each.left),
            served=tuple(replace(x, engine=f"{label}: {x.engine}") for x in each.served),
            untried=tuple(f"{label}: {x}" for x in each.untried),
        )
        for label, each in reports
    ]
    pairs = sorted({pair for each in every for pair in each.scale.pairs})
    return Report(
        name=name,
        results=tuple(x for each in every for x in each.results),
        left=tuple(x for each in every for x in each.left),
        served=tuple(x for each in every for x in each.served),
        scale=Scale(max(each.scale.factor for each in every), tuple(pairs)),
        moved_because=next((each.moved_because for each in every if each.moved_because), ""),
        seconds=sum(each.seconds for each in every),
        untried=tuple(x for each in every for x in each.untried),
    )


def verify_through_front(
    topology: Topology,
    engines: Mapping[str, Sequence[Engine]],
    drawn: tuple[int, int],
    accept: tuple[str, ...],
    progress: Callable[[JobProgress], None],
) -> list[tuple[str, Report]]:
    """What clients meet at each entry, on loopback: a report for each, and for those that cannot be tried a reason.

    `engines` are those to try, by tier, of which the first that can serves; `drawn` how many requests, and their seed.
    """
    places = placeholder_addresses(topology, {})
    every = tiers(topology, None, places)
    by_name = {tier.name: tier for tier in every}
    found = []
    known = {(front.tier, front.entry.name) for front in l4_fronts(every)}
    for front in l4_fronts(every):
        label = f"{front.behind} through {front.tier}"
        edge, inner = by_name[front.tier], by_name[front.behind]
        why = _obstacle(edge, front, engines)
        if why:
            found.append((label, _nothing(topology.name, f"requests through {front.entry.name}: {why}")))
            continue
        one, other = (_first(tier, engines[tier.name], accept) for tier in (edge, inner))
        found.append((label, _asked(topology, front, one, other, drawn, progress)))
    for tier in every:
        for listener in tier.plan.listeners if tier.entry else ():
            leads = any(pool.leads_to is not None for pool in tier.plan.pools)
            if leads and (tier.name, listener.name) not in known:
                why = f"requests through {listener.name}, which does not lead to one L7 listener by bytes alone"
                found.append((tier.name, _nothing(topology.name, why)))
    return found


def _nothing(name: str, why: str) -> Report:
    return Report(name, (), (), (), Scale(), moved_because="", seconds=0.0, untried=(why,))


def _obstacle(edge: Tier, front: Front, engines: Mapping[str, Sequence[Engine]]) -> str:
    """Why this entry cannot be tried here, "" when it can."""
    ends = front.entry.tls is not None and not front.entry.tls.passthrough
    direct = any(pool.leads_to is not None and pool.leads_to[0] == front.behind for pool in edge.plan.pools)
    if ends:
        return "TLS ends there"
    if not direct:
        return "more than one tier stands in front"
    if all(runs_in_kernel(target, edge.plan) for target in engines[edge.name]):
        return "the kernel does not forward to loopback; `lbgen up --runtime docker` asks every route"
    return ""


def _first(tier: Tier, targets: Sequence[Engine], accept: tuple[str, ...]) -> EngineChoice:
    able = [x for x in targets if not runs_in_kernel(x, tier.plan)]
    chosen, _ = choose(tier.plan, able, insist=tier.engine is not None, accept=accept)
    return chosen[0]


def _asked(
    topology: Topology,
    front: Front,
    edge: EngineChoice,
    inner: EngineChoice,
    drawn: tuple[int, int],
    progress: Callable[[JobProgress], None],
) -> Report:
    begun = time.monotonic()
    ports = FreePorts()
    with certify(front.plan) as given:
        scale = choose_scale(given.plan)
        plan = scale_times(given.plan, scale)
        listener = ports.take()
        (seen,) = plan.listeners
        plan = with_ports(plan, {seen.name: listener})
        endpoints = [endpoint for pool in plan.pools for endpoint in pool.endpoints]
        plan = with_endpoints(plan, {x.field: (LOOPBACK, ports.take()) for x in endpoints})
        replicas = tuple(_node(plan, front, ports.take(), listener) for _ in range(_NODES))
        at = [{x.listeners[0].name: (LOOPBACK, x.listeners[0].port)} for x in replicas]
        counts = {front.behind: _NODES}
        before = next(
            x
            for x in tiers(topology, counts, {**placeholder_addresses(topology, counts), front.behind: at})
            if x.name == front.tier
        )
        only = next(x for x in before.plan.listeners if x.name == front.entry.name)
        ahead = with_ports(replace(before.plan, listeners=(only,)), {only.name: listener})
        cases = request_cases(plan, LOOPBACK, most=drawn[0], seed=drawn[1])
        if not front.client_known:  # all clients are the edge to it, which is on loopback as they are
            cases = tuple(case for case in cases if case.request.client == LOOPBACK)
        job = Job(
            inner.name,
            inner.version,
            inner.binary,
            plan,
            tuple(ScheduledCase(case) for case in cases),
            isolated=False,
            folder=str(given.folder),
            front=FrontTier(edge.name, edge.version, edge.binary, ahead, only.name, replicas),
        )
        (ended,) = run_all([job], progress)
    broken = (UnverifiedEngine(inner.name, ended.diagnostics, broken=True),) if isinstance(ended, Failed) else ()
    results = ended.results if isinstance(ended, Finished) else ()
    return Report(
        topology.name,
        results,
        broken,
        (),
        scale,
        moved_because="",  # its own addresses are tried tier by tier
        seconds=time.monotonic() - begun,
    )


def _node(plan: Plan, front: Front, port: int, listener: int) -> Plan:
    """One of the replicas: what clients meet, as it is behind the edge."""
    (seen,) = plan.listeners
    inner = replace(seen, address=LOOPBACK, port=port, public_port=listener, proxy_protocol=front.proxied, tls=seen.tls)
    return replace(plan, listeners=(inner,))
