"""`lbgen.up`: with `swap`, an engine of a running stack is exchanged once a verification has found no difference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, DifferenceError, EngineError, UsageError
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.model import Plan
from lbgen.runtime import api
from lbgen.runtime.driver import DRAIN_SECONDS
from lbgen.runtime.local.order import Progress, Step
from lbgen.runtime.local.process import START_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lbgen.conformance.verify.report import Report
    from lbgen.engines.api import Engine
    from lbgen.spec.load import Topology

REQUESTS, FAULTS = 200, 20  # of the verification before a swap, per engine


def _ignore(progress: Progress) -> None:
    """Nobody watches."""


def up(
    topology: Topology | Plan,
    engines: Sequence[str | Engine] | None = None,
    *,
    engine: str | Engine | None = None,
    swap: str | None = None,
    runtime: str | None = None,
    backends: bool = True,
    accept: tuple[str, ...] = (),
    name: str | None = None,
    replicas: Mapping[str, int] | None = None,
    progress: Callable[[Progress], None] = _ignore,
    seconds: float = START_SECONDS,
    drain: float = DRAIN_SECONDS,
) -> api.Stack:
    """See `lbgen.runtime.api.up`. With `swap` that engine takes the place of the one that runs (of `engine`, where
    several do) at the same published ports, in containers: first at most 200 requests and 20 faults of the topology are
    tried on both, as by `verify`; then it is started beside the other, proven, and new connections are turned to it.
    `Stack.swapped` says what clients of our own saw meanwhile. What does not serve changes nothing.

    Raises as `up` does, UsageError LB406 (no such stack) and LB415 (it cannot be done there), DifferenceError LB414
    (they differ, with the first difference), EngineError LB413 (it did not serve; the engine before serves on).
    """
    if swap is None:
        return api.up(
            topology,
            engines,
            engine=engine,
            runtime=runtime,
            backends=backends,
            accept=accept,
            name=name,
            replicas=replicas,
            progress=progress,
            seconds=seconds,
            drain=drain,
        )
    from lbgen.runtime import swap as exchange

    engine_by_name(swap)  # LB305 when there is none
    if replicas or (not isinstance(topology, Plan) and topology.model.tiers is not None):
        raise UsageError(Diagnostic("LB415", "a stack of tiers has an engine for each replica", hint="change `tiers:`"))
    plan = _plan(topology)
    named = plan if name is None else replace(plan, name=name)
    asked = [engine] if engine is not None else list(engines or ())
    if len(asked) > 1:
        raise UsageError(Diagnostic("LB415", "one engine is exchanged at a time", hint="name one with -e"))
    old = next((x if isinstance(x, str) else x.name for x in asked), None)
    stack, there = exchange.replaced(named, swap, old, runtime)
    verified = _verified(plan, (there.name, swap), accept, progress)
    made = exchange.swap(
        named,
        stack,
        there,
        swap,
        backends=backends,
        accept=accept,
        progress=progress,
        seconds=seconds,
        drain=drain,
    )
    return replace(made, swapped=None if made.swapped is None else replace(made.swapped, verified=verified))


def _plan(topology: Topology | Plan) -> Plan:
    if isinstance(topology, Plan):
        return topology
    from lbgen.plan.resolve import plan

    return plan(topology)


def _verified(plan: Plan, both: tuple[str, str], accept: tuple[str, ...], progress: Callable[[Progress], None]) -> str:
    """What was compared. DifferenceError LB414 with the first difference, EngineError LB403 when one did not run."""
    from lbgen.conformance.verify.run import verify

    progress(
        Progress(Step.VERIFYING, both[1], f"against {both[0]}: at most {REQUESTS} requests and {FAULTS} faults each")
    )
    report = verify(plan, both, accept=accept, requests=REQUESTS, most_faults=FAULTS)
    said = _said(report, both)
    if report.differences:
        first = report.differences[0]
        message = f"{both[0]} and {both[1]} do not behave the same ({said}); first, {first.subject}, {first.case}: "
        hint = f"nothing was changed; lbgen verify -e {both[0]} -e {both[1]} shows all"
        raise DifferenceError(Diagnostic("LB414", f"{message}{first.detail}\n{first.again}", hint=hint))
    if report.broken:
        reasons = [reason for left in report.broken for reason in left.reasons]
        raise EngineError((Diagnostic("LB403", f"the verification failed ({said}); nothing was changed"), *reasons))
    progress(Progress(Step.VERIFIED, both[1], said))
    return said


def _said(report: Report, both: tuple[str, str]) -> str:
    cases = sum(result.subject.startswith(both[1]) for result in report.results)
    said = f"{cases} cases on {both[1]} and as many on {both[0]}, {len(report.differences)} differences"
    return f"{said}, {report.seconds:.0f} s"
