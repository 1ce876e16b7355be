"""`lbgen.bench`: verify engines on a topology, then measure them side by side under load."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.bench.gate import rendered_files, verified_engines
from lbgen.bench.load import BenchProgress, Generators, LoadShape
from lbgen.bench.report import (
    BenchReport,
    LoadOptions,
    MeasuredEngine,
    UnmeasuredEngine,
    Why,
    notes_of,
    rows_of,
    this_machine,
)
from lbgen.bench.rounds import LADDER, Measurement, PartialResults, Samples
from lbgen.bench.subjects import BODY_BYTES, Unit, running
from lbgen.bench.target import LoadTarget, choose_target
from lbgen.conformance.verify.addresses import LOOPBACK
from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.engines.api import Engine
from lbgen.plan.model import Plan
from lbgen.plan.request import Request
from lbgen.plan.resolve import plan as resolve
from lbgen.runtime.common.driver import no_progress
from lbgen.runtime.common.selection import configured

if TYPE_CHECKING:
    from lbgen.spec.load import Topology

CONNECTIONS = (50, 250)
SECONDS, ROUNDS = 4, 5
REQUESTS = 100  # per engine, of the verification before the load
STREAMS = 10  # of each HTTP/2 connection


def bench(
    topology: Topology | Plan,
    engines: Sequence[str | Engine] | None = None,
    *,
    request: Request | None = None,
    listener: str | None = None,
    connections: Sequence[int] = CONNECTIONS,
    seconds: int = SECONDS,
    rounds: int = ROUNDS,
    new_connections: bool = False,
    rates: Sequence[int] | None = None,
    ladder: Sequence[float] = LADDER,
    delays: Mapping[str, float] | None = None,
    profiles: Sequence[str] = (),
    variants: Mapping[str, Mapping[str, object]] | None = None,
    partial: Path | None = None,
    accept: tuple[str, ...] = (),
    requests: int = REQUESTS,
    progress: Callable[[BenchProgress], None] = no_progress,
) -> BenchReport:
    """Verify `engines` (default: all that can) on at most `requests` requests, and measure those that passed.

    They run as local processes on free ports of 127.0.0.1, all in front of one endpoint that answers from memory. They
    and the endpoint itself are loaded in turn, `rounds` times `seconds`, after a second of warm-up each: by wrk in a
    closed loop at each number of `connections` (with `new_connections` also one for each request), then at constant
    `rates` of requests per second (None: at the shares `ladder` of what the fastest engine answered, without the
    engines that answered less themselves; (): none). Where the listener speaks HTTP/2, h2load measures that in a closed
    loop too, if it is in PATH. `request`: the GET to send, of a listener of the plan (default: the first that is
    forwarded, on `listener` or any).
    `delays`: by endpoint, such as `pools.app.endpoints[0]`, the seconds after which it answers. `profiles`: measure
    the topology with each of these side by side, instead of its own. `variants`: by name settings of the topology, as
    those of `Topology.replace`, which are measured beside it; where they ask something of one engine alone, such as
    direct forwarding, with that one only. `partial`: a file that keeps the rounds until
    all are measured; the same call goes on with it. An engine that differs or fails is in the report, and is not
    measured.

    Raises LbgenError (findings, verdicts), UsageError LB305 and LB431 (tiers, nothing to measure), EngineError LB402
    and LB430 (wrk is missing or failed), LB403 (the endpoint or an engine ended meanwhile).
    """
    if seconds < 1 or rounds < 1 or not connections or min((*connections, *(rates or ()), 1)) < 1:
        raise UsageError(Diagnostic("LB431", "seconds, rounds, connections and rates of a benchmark are at least 1"))
    generators = Generators.find()
    plans = _plans_of(topology, profiles, variants or {})
    plan = next(iter(plans.values()))
    target = choose_target(plan, request, listener)
    late = dict(delays or {})
    if unknown := late.keys() - {endpoint.field for pool in plan.pools for endpoint in pool.endpoints}:
        hint = "write it as pools.NAME.endpoints[0]"
        raise UsageError(Diagnostic("LB431", f"the topology has no endpoint {min(unknown)}", hint=hint))
    units: list[Unit] = []
    engines_: list[MeasuredEngine] = []
    left: list[UnmeasuredEngine] = []
    for profile, each in plans.items():
        able = engines
        if alone := configured(each) if profile in (variants or {}) else ():
            able = [x for x in engines or alone if (x if isinstance(x, str) else x.name) in alone] or engines
        good, others = verified_engines(each, able, accept, requests, progress, kernel=True)
        own = choose_target(each, request, listener)
        units += [Unit(_title(choice.name, profile), choice, each, own) for choice, _ in good]
        engines_ += [replace(engine, engine=_title(engine.engine, profile)) for _, engine in good]
        left += [replace(x, engine=_title(x.engine, profile)) for x in others]
    closed = _closed_loops(sorted(set(connections)), target, generators, new_connections)
    files = {unit.name: rendered_files(unit.plan, unit.choice, accept) for unit in units}
    chosen = None if rates is None else tuple(sorted(set(rates)))
    kept: PartialResults | None = None
    if partial is not None:
        versions = [engine.version for engine in engines_]
        settings = (files, versions, target, late, this_machine(), generators, closed, chosen, ladder, seconds, rounds)
        kept = PartialResults(partial, settings)
    samples: Samples = []
    failed: dict[str, tuple[Diagnostic, ...]] = {}
    if units:
        with running(units, accept, late) as (subjects, failed):
            if len(subjects) > 1:
                samples = Measurement(
                    subjects, generators, closed, seconds, rounds, chosen, tuple(ladder), progress, kept
                ).run()
    if kept is not None:
        kept.remove()
    place = (LOOPBACK, plan.listener(target.listener).port)

    def sender(shape: LoadShape) -> tuple[str, str]:
        return generators.name(shape), shlex.join(generators.command(shape, target, place, seconds))

    rows = rows_of(samples, sender)
    load = LoadOptions.of(target, BODY_BYTES, seconds, rounds, late)
    return BenchReport(
        name=plan.name,
        **this_machine(),
        load=load,
        engines=tuple(engine for engine in engines_ if engine.engine not in failed),
        not_measured=(*left, *(UnmeasuredEngine.of(name, Why.FAILED, each) for name, each in failed.items())),
        rows=rows,
        notes=notes_of(rows, load, os.cpu_count() or 1, http2=target.http2),
        configurations=files,
    )


def _closed_loops(
    connections: Sequence[int], target: LoadTarget, generators: Generators, new_connections: bool
) -> list[LoadShape]:
    """As many requests at a time over each protocol; HTTP/2 where the listener and a generator speak it."""
    found = [LoadShape(each) for each in connections]
    if new_connections:
        found += [LoadShape(each, keep_alive=False) for each in connections]
    if target.http2 and generators.h2load is not None:
        found += [LoadShape(-(-each // STREAMS), streams=min(each, STREAMS)) for each in connections]
    return found


def _plans_of(
    topology: Topology | Plan, profiles: Sequence[str], variants: Mapping[str, Mapping[str, object]]
) -> dict[str, Plan]:
    """The plan with each of `profiles`, that of the topology's own by "" where there are none, and that of each
    variant. Raises as `plan_of`, and UsageError LB431 for profiles or variants of a plan."""
    if not profiles and not variants:
        return {"": plan_of(topology)}
    if isinstance(topology, Plan):
        raise UsageError(Diagnostic("LB431", "a plan has no profile or field any more: give the topology"))
    settings: dict[str, Mapping[str, object]] = {name: {"profile": name} for name in profiles} or {"": {}}
    return {name: plan_of(topology.replace(each)) for name, each in {**settings, **variants}.items()}


def _title(engine: str, profile: str) -> str:
    return f"{engine}, {profile}" if profile else engine


def plan_of(topology: Topology | Plan) -> Plan:
    """The plan to measure. Raises UsageError LB431 for a topology of tiers."""
    if isinstance(topology, Plan):
        return topology
    if topology.model.tiers is not None:
        raise UsageError(Diagnostic("LB431", "a topology of tiers cannot be measured", field="tiers"))

    return resolve(topology)
