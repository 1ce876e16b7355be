"""Choose the engines of a benchmark: those that serve the topology here, and pass a short verification of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.bench.load import BenchProgress
from lbgen.bench.report import MeasuredEngine, UnmeasuredEngine, Why
from lbgen.conformance.runner import CaseState
from lbgen.conformance.verify.run import verify
from lbgen.diagnostics import Diagnostic
from lbgen.engines.api import EndpointRules, Engine
from lbgen.engines.rendered import render_with
from lbgen.plan.model import Plan
from lbgen.plan.overlay import with_version
from lbgen.runtime.local.decide import choose
from lbgen.runtime.local.messages import EngineChoice
from lbgen.runtime.stack_request import chosen_engines

if TYPE_CHECKING:
    from lbgen.conformance.verify.jobs import JobProgress
    from lbgen.conformance.verify.report import Report


def verified_engines(
    plan: Plan,
    engines: Sequence[str | Engine] | None,
    accept: tuple[str, ...],
    requests: int,
    progress: Callable[[BenchProgress], None],
    *,
    kernel: bool = False,
) -> tuple[tuple[tuple[EngineChoice, MeasuredEngine], ...], tuple[UnmeasuredEngine, ...]]:
    """The engines that may be measured, and the others. At most `requests` requests are verified, and no faults.
    `kernel`: also those that forward in the kernel; of these, those with `endpoint_rules` are not verified.

    Raises what `verify` raises."""
    chosen, skipped = choose(
        plan, chosen_engines(engines), insist=engines is not None, accept=accept, endpoint_rules=kernel
    )
    left = [UnmeasuredEngine.of(name, Why.LEFT_OUT, reasons) for name, reasons in skipped]
    if not kernel:
        why = Diagnostic("LB431", "it forwards in the kernel, where no process has the CPU time of a request")
        left += [UnmeasuredEngine.of(each.name, Why.LEFT_OUT, (why,)) for each in chosen if each.kernel]
    usable = [each for each in chosen if kernel or not each.kernel]
    unverified = tuple((x, MeasuredEngine(x.name, x.binary.version, 0)) for x in usable if endpoint_rules(x, plan))
    usable = [each for each in usable if not endpoint_rules(each, plan)]
    if not usable:
        return unverified, tuple(left)

    def tell(event: JobProgress) -> None:
        progress(BenchProgress(f"verifying {event.engine}: {event.what} {event.done}/{event.total}"))

    progress(BenchProgress("verifying"))
    several = [each.engine for each in usable]
    report = verify(plan, several, accept=accept, requests=requests, most_faults=0, progress=tell)
    refused = refused_engines(report)
    passed = Counter(x.subject.partition(" ")[0] for x in report.results if x.state is CaseState.PASS)
    good = tuple(
        (each, MeasuredEngine(each.name, each.binary.version, passed[each.name]))
        for each in usable
        if each.name not in {x.engine for x in refused}
    )
    return (*good, *unverified), (*left, *refused)


def endpoint_rules(choice: EngineChoice, plan: Plan) -> tuple[EndpointRules, ...]:
    """The rules that an engine needs where endpoints are, such as those of direct forwarding. Verification on one host
    cannot load them."""
    return choice.engine.process(plan, choice.binary, Path("/")).endpoint_rules


def rendered_files(plan: Plan, choice: EngineChoice, accept: tuple[str, ...]) -> dict[str, str]:
    """The files that an engine gets for `plan`, by name."""
    plan = with_version(replace(plan, resolvers=choice.resolvers), choice.name, choice.version)
    return {each.name: each.text for each in render_with(choice.engine, plan, choice.version, accept).files}


def refused_engines(report: Report) -> tuple[UnmeasuredEngine, ...]:
    """The engines of a verification that must not be measured: they differ (also from each other), or failed."""
    found: dict[str, list[Diagnostic]] = {}
    for result in report.differences:
        for subject in result.subject.split(", "):
            message = f"{result.case}: {result.detail}"
            found.setdefault(subject.partition(" ")[0], []).append(
                Diagnostic("LB431", message, hint="`lbgen verify` shows all differences")
            )
    failed = [UnmeasuredEngine.of(each.engine, Why.FAILED, each.reasons) for each in report.broken]
    return (*(UnmeasuredEngine.of(name, Why.DIFFERS, reasons) for name, reasons in found.items()), *failed)
