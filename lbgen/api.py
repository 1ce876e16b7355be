"""The functions behind `lbgen up`, `preview` and `reload`; with those of `lbgen.runtime.stacks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, DifferenceError, EngineError, UsageError
from lbgen.engines.api import Engine
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.model import Plan
from lbgen.plan.resolve import plan
from lbgen.runtime import registry
from lbgen.runtime.common.driver import (
    DRAIN_SECONDS,
    RELOAD_SECONDS,
    REPORTED_AT_START,
    START_SECONDS,
    Decision,
    GroupDecision,
    Progress,
    ReloadOptions,
    Step,
    UpOptions,
    no_progress,
)
from lbgen.runtime.common.selection import for_routes
from lbgen.runtime.json_types import SwapResult
from lbgen.runtime.orchestrators import model as orchestrated
from lbgen.runtime.orchestrators import run as orchestrators
from lbgen.runtime.orchestrators.model import Deployment, Options
from lbgen.runtime.registry import docker_unreachable
from lbgen.runtime.results import Stack
from lbgen.runtime.stack_request import (
    add_locations,
    check_runtime,
    chosen_engines,
    select_runtime,
    tiers_reload,
    tiers_request,
    tiers_to_run,
    usable_files,
)
from lbgen.runtime.stacks import down, logs, ps, requests
from lbgen.runtime.swap import Proof
from lbgen.runtime.swap import verify_and_swap as swap_engines
from lbgen.runtime.tiers.rollout import TiersRequest, with_name
from lbgen.runtime.tiers.rollout import preview as preview_tiers
from lbgen.runtime.tiers.rollout import up as tiers_up

if TYPE_CHECKING:
    from lbgen.conformance.preview import Preview
    from lbgen.conformance.verify.report import Report
    from lbgen.spec.load import Topology

__all__ = [
    "REPORTED_AT_START",
    "Progress",
    "Stack",
    "Step",
    "SwapResult",
    "docker_unreachable",
    "down",
    "logs",
    "preview",
    "ps",
    "reload",
    "requests",
    "up",
]

ORCHESTRATED_SECONDS = 180.0  # for a tier on a swarm or cluster, which may have to pull images
REQUESTS, FAULTS = 200, 20  # per engine, of the verification before a swap


def verify_swap(
    plan: Plan, both: tuple[str, str], accept: tuple[str, ...], progress: Callable[[Progress], None]
) -> str:
    """Compare the two engines on requests and faults of `plan`; says in words what was compared.

    DifferenceError LB414 with the first difference, EngineError LB403 when one of them did not run.
    """
    from lbgen.conformance.verify.run import verify  # all of the conformance suite

    limits = f"against {both[0]}: at most {REQUESTS} requests and {FAULTS} faults each"
    progress(Progress(Step.VERIFYING, both[1], limits))
    report = verify(plan, both, accept=accept, requests=REQUESTS, most_faults=FAULTS)
    compared = _summary(report, both)
    if report.differences:
        first = report.differences[0]
        message = f"{both[0]} and {both[1]} do not behave the same ({compared}); first, {first.subject}, {first.case}: "
        hint = f"nothing was changed; lbgen verify -e {both[0]} -e {both[1]} shows all"
        raise DifferenceError(Diagnostic("LB414", f"{message}{first.detail}\n{first.again}", hint=hint))
    if report.broken:
        reasons = [reason for left in report.broken for reason in left.reasons]
        raise EngineError((Diagnostic("LB403", f"the verification failed ({compared}); nothing was changed"), *reasons))
    progress(Progress(Step.VERIFIED, both[1], compared))
    return compared


def _summary(report: Report, both: tuple[str, str]) -> str:
    cases = sum(result.subject.startswith(both[1]) for result in report.results)
    text = f"{cases} cases on {both[1]} and as many on {both[0]}, {len(report.differences)} differences"
    return f"{text}, {report.seconds:.0f} s"


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
    namespace: str | None = None,
    progress: Callable[[Progress], None] = no_progress,
    seconds: float | None = None,
    drain: float = DRAIN_SECONDS,
    proof: Proof | None = verify_swap,
) -> Stack:
    """Start `topology` on `engine` (or several `engines`; default: all that can) and return when every route answers.

    `runtime`: `docker`, containers that are published on 127.0.0.1 unless a listener names another address, or `local`,
    processes of this host; None is that on which the stack runs already, else docker when a daemon answers. One engine
    gets the topology's own ports, several an offset each. `backends` replaces the pools' endpoints by stand-ins that
    answer JSON. `name` (default: the topology's) tells stacks apart: one of that name that runs the same is left alone,
    one that differs takes over the change as by `reload` where it can, or is replaced: containers without a gap, unless
    their published ports are others; their open connections live on for `drain` seconds at most.
    A topology of tiers becomes a stack that has a part for each replica, one engine each (see `lbgen.runtime.tiers`);
    `replicas` says how many, by tier, instead of the topology.
    `progress` is called with every step. `seconds` (20) is how long to wait for listeners, and again for routes, where
    there are up to 1,000 of them; for more it is longer in proportion. If this
    process ends before `up` returns, nothing new keeps running.

    `runtime` may also be `swarm` or `kubernetes`: one engine, or the tiers' own, on what docker or kubectl is set to
    use (`namespace`: of Kubernetes), in `replicas` (by tier, "" without tiers), with the endpoints of the topology,
    never stand-ins. `up` returns when all replicas are healthy, for which each tier has `seconds` (180), and takes back
    what does not get healthy. `drain` does not apply.

    With `swap` that engine takes the place of the one that runs (of `engine`, where several do) at the same published
    ports, in containers: first `proof` compares both (None = no comparison; by default at most 200 requests and 20
    faults of the topology are verified), then the new engine starts beside the other, every route is asked, and new
    connections go to it. `Stack.swapped` says what lbgen's own clients saw meanwhile. If the new engine does not serve,
    nothing changes.

    Raises LbgenError (findings, verdicts), UsageError LB305/LB409 (unknown engine, runtime), EngineError LB402 (no
    executable), LB403 (did not start), LB404 (port taken), LB405 (route answers wrongly), LB407 (root), LB408 (state),
    LB420 (no docker daemon), LB421 (docker refused something), LB422 (no image), LB413 (taken back), LB433 (no swarm or
    cluster); with `swap` also UsageError LB406 (no
    such stack), LB415 (it cannot be done there), DifferenceError LB414 (they differ, with the first difference),
    EngineError LB413 (it did not serve; the engine before serves on).
    """
    warnings: tuple[Diagnostic, ...] = ()
    check_runtime(runtime)
    asked = [engine] if engine is not None else engines
    if (on := orchestrators.selected(name or topology.name, runtime)) is not None:
        wanted, warnings = _deployment(topology, on, asked, replicas or {}, accept, name, namespace, swap)
        result = orchestrators.up(wanted, Options(progress, seconds or ORCHESTRATED_SECONDS))
        return Stack.of(result, *warnings)
    seconds = seconds or START_SECONDS
    options = UpOptions(backends, accept, progress, seconds, drain, insist=asked is not None)
    if not isinstance(topology, Plan):
        if topology.model.tiers is not None or replicas:
            if swap is not None:
                message = "a stack of tiers has an engine for each replica"
                raise UsageError(Diagnostic("LB415", message, hint="change `tiers:`"))
            return _tiers_up(tiers_request(topology, name, replicas, asked, options), runtime)
        warnings = usable_files(topology)
        topology = plan(topology)
    if name is not None:
        topology = replace(topology, name=name)
    if swap is not None:
        names = [each if isinstance(each, str) else each.name for each in asked or ()]
        return swap_engines(topology, names, engine_by_name(swap).name, runtime, options, proof)
    runtime, fallen_back = select_runtime(
        topology.name, runtime, lambda: registry.default_runtime(topology, backends=backends)
    )
    with add_locations((topology,)):
        options = replace(options, seconds=for_routes(topology, seconds))
        result = registry.driver(runtime).up(topology, chosen_engines(asked), options)
    return Stack.of(result, *warnings, *fallen_back)


def preview(
    topology: Topology | Plan,
    engines: Sequence[str | Engine] | None = None,
    *,
    engine: str | Engine | None = None,
    runtime: str | None = None,
    backends: bool = True,
    accept: tuple[str, ...] = (),
    name: str | None = None,
    replicas: Mapping[str, int] | None = None,
    namespace: str | None = None,
    by_reload: bool = False,
) -> Preview:
    """Say what `up` with these arguments would do to what runs now, or, with `by_reload`, what `reload` would, which
    only takes `accept` and `name`: what happens to each engine, agent and to the stand-ins, and which requests would be
    answered differently. Nothing is started, stopped, signalled, pulled or built.

    The engines' own checkers do not run: `up` may still refuse for those. Raises what `up`
    or `reload` raises before it changes anything: LbgenError (findings, verdicts), UsageError LB305, LB406, LB409,
    EngineError LB402, LB404, LB407, LB412 (by `reload` only), LB420, LB421, LB423.
    """
    check_runtime(runtime)
    asked = [engine] if engine is not None else engines
    warnings: tuple[Diagnostic, ...] = ()
    if (on := orchestrators.selected(name or topology.name, runtime)) is not None:
        if by_reload:
            wanted, warnings = _changed(topology, on, accept, name)
        else:
            wanted, warnings = _deployment(topology, on, asked, replicas or {}, accept, name, namespace)
        return _shown(wanted.record.name, on, orchestrators.preview(wanted), *warnings)
    options = UpOptions(backends, accept, no_progress, insist=asked is not None)
    if not isinstance(topology, Plan):
        if topology.model.tiers is not None or replicas:
            request = tiers_request(topology, name, replicas, asked, options)
            if by_reload:
                request, runtime = tiers_reload(request.topology, options)
            return _tiers_preview(request, runtime)
        warnings = usable_files(topology)
        topology = plan(topology)
    if name is not None:
        topology = replace(topology, name=name)
    with add_locations((topology,)):
        if by_reload:
            stack = registry.find_stack(topology.name)
            how = ReloadOptions(accept, no_progress, RELOAD_SECONDS)
            decision = registry.driver(stack.runtime).preview_reload(stack, topology, how)
            return _shown(stack.name, stack.runtime, decision, *warnings)
        runtime, fallen_back = select_runtime(
            topology.name, runtime, lambda: registry.default_runtime(topology, backends=backends)
        )
        decision = registry.driver(runtime).preview_up(topology, chosen_engines(asked), options)
    return _shown(topology.name, runtime, decision, *warnings, *fallen_back)


def _shown(name: str, runtime: str, decision: Decision | GroupDecision, *warnings: Diagnostic) -> Preview:
    from lbgen.conformance.preview import Preview  # all of the conformance suite

    return Preview.of(name, runtime, decision, *warnings)


def _deployment(
    topology: Topology | Plan,
    runtime: str,
    engines: Sequence[str | Engine] | None,
    replicas: Mapping[str, int],
    accept: tuple[str, ...],
    name: str | None,
    namespace: str | None,
    swap: str | None = None,
) -> tuple[Deployment, tuple[Diagnostic, ...]]:
    """What an orchestrator runs, and warnings about files. UsageError for what does not apply there."""
    from lbgen.exporters.deployment import deployment  # all exporters

    if swap is not None:
        hint = f"`lbgen up --runtime {runtime} -e {swap}` rolls the new engine out and takes back what is not healthy"
        raise UsageError(Diagnostic("LB415", "a swap is done in containers of one machine", hint=hint))
    if isinstance(topology, Plan):
        raise UsageError(Diagnostic("LB409", f"{runtime} runs whole topologies, not plans", hint="pass the topology"))
    if len(engines or ()) > 1:
        raise UsageError(Diagnostic("LB305", f"{runtime} runs one engine", hint="name one: -e haproxy"))
    topology = with_name(topology, name)
    now = orchestrated.read(topology.name)
    engine = next((x if isinstance(x, str) else x.name for x in engines or ()), None if now is None else now.engine)
    select_runtime(topology.name, runtime, lambda: (runtime, ()))
    place = (namespace or "") if runtime == "kubernetes" else ""
    return deployment(topology, runtime, engine, replicas, accept, place), usable_files(topology)


def _changed(
    topology: Topology | Plan, runtime: str, accept: tuple[str, ...], name: str | None
) -> tuple[Deployment, tuple[Diagnostic, ...]]:
    """As `_deployment`, with what the stack that runs was given."""
    now = orchestrated.read(name or topology.name)
    assert now is not None  # noqa: S101  # as it was selected by its record
    return _deployment(topology, runtime, None, now.replicas, (*now.accept, *accept), name, now.namespace or None)


def _tiers_up(wanted: TiersRequest, runtime: str | None) -> Stack:
    of_files, found, runtime, fallen_back = tiers_to_run(wanted, runtime)
    with add_locations([tier.plan for tier in found]):
        result = tiers_up(wanted, registry.driver(runtime), runtime)
    return Stack.of(result, *of_files, *fallen_back)


def _tiers_preview(wanted: TiersRequest, runtime: str | None) -> Preview:
    of_files, found, runtime, fallen_back = tiers_to_run(wanted, runtime)
    with add_locations([tier.plan for tier in found]):
        decision = preview_tiers(wanted, registry.driver(runtime), runtime)
    return _shown(wanted.topology.name, runtime, decision, *of_files, *fallen_back)


def reload(
    topology: Topology | Plan,
    *,
    name: str | None = None,
    accept: tuple[str, ...] = (),
    progress: Callable[[Progress], None] = no_progress,
    seconds: float = RELOAD_SECONDS,
) -> Stack:
    """Have the running stack of that name (default: the topology's) serve `topology` from now on, no request lost.

    The engines' own checkers see the new files first. They are put in place whole, loaded the engine's own way, and
    every route is asked; when one does not answer as it must within `seconds` (longer in proportion where there are
    more than 1,000 routes), all engines go back to the files before.
    A swarm or cluster replaces the tasks or pods one after the other, with the engine and replicas of `up`.
    `accept` comes on top of what `up` accepted. Raises LbgenError (findings, verdicts), UsageError LB406 (nothing of
    that name runs), EngineError LB401 (a checker refuses the files), LB404 (port taken), LB412 (only possible with a
    new start), LB413 (taken back, and why).
    """
    warnings: tuple[Diagnostic, ...] = ()
    if (on := orchestrators.selected(name or topology.name, None)) is not None:
        wanted, warnings = _changed(topology, on, accept, name)
        done = orchestrators.up(wanted, Options(progress, max(seconds, ORCHESTRATED_SECONDS)))
        return replace(Stack.of(done, *warnings), reloaded=not done.unchanged, replaced=False)
    if not isinstance(topology, Plan):
        if topology.model.tiers is not None:
            return _tiers_up(*tiers_reload(with_name(topology, name), UpOptions(True, accept, progress, seconds)))
        warnings = usable_files(topology)
        topology = plan(topology)
    if name is not None:
        topology = replace(topology, name=name)
    found = registry.find_stack(topology.name)
    with add_locations((topology,)):
        driver = registry.driver(found.runtime)
        result = driver.reload(found, topology, ReloadOptions(accept, progress, for_routes(topology, seconds)))
    return replace(Stack.of(result, *warnings), reloaded=True)
