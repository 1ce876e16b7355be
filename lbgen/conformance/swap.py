"""`lbgen.up`: with `swap`, an engine of a running stack is exchanged once a verification has found no difference."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, DifferenceError, EngineError
from lbgen.runtime import api
from lbgen.runtime.common.progress import Progress, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.conformance.verify.report import Report
    from lbgen.plan.model import Plan

REQUESTS, FAULTS = 200, 20  # of the verification before a swap, per engine


def verified(plan: Plan, both: tuple[str, str], accept: tuple[str, ...], progress: Callable[[Progress], None]) -> str:
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


up = partial(api.up, proof=verified)
up.__doc__ = api.up.__doc__
