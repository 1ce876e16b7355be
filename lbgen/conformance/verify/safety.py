"""Hostile requests to the listeners of a topology, judged by S1 to S4 at its endpoints (`lbgen.conformance.safety`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.conformance.engine_under_test import EngineUnderTest
from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.safety.run import judge_safety
from lbgen.plan.model import ClientTimeouts, Forward, Mode, Plan, Redirect, Respond, Timeouts
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.conformance.verify.messages import Job

ATTACKS = 500  # at most, on each engine: a few seconds
_RULES = ("S1", "S2", "S3", "S4")


def safety_results(job: Job) -> Iterator[Result]:
    """A result for each rule, or for each breach of it; none where no listener reads requests.

    The engine serves the topology on ports of 127.0.0.1, without limits on how many requests a client may send, to
    endpoints that keep every byte."""
    if job.front is not None or not any(each.mode is Mode.L7 for each in job.plan.listeners):
        return
    if not job.isolated:  # engines side by side would take each other's ports
        why = "hostile requests need a network of their own: run as root, with endpoints that are not on loopback"
        yield from (Result(job.name, "topology", rule, rule, CaseState.SKIPPED, why) for rule in _RULES)
        return
    begun = time.monotonic()
    subject = EngineUnderTest(job.engine, job.version, job.binary)
    report = judge_safety(_without_limits(job.plan), subject, most=ATTACKS)
    seconds = (time.monotonic() - begun) / len(_RULES)
    for rule in _RULES:
        found = [each for each in report.breaches if each.rule == rule]
        for number, each in enumerate(found, 1):
            again = f"python -m lbgen.conformance.safety -e {job.engine}"
            detail = f"{each.attack!r}: {each.detail}"
            yield Result(subject.label, "topology", f"{rule}/{number}", rule, CaseState.FAIL, detail, again, seconds)
        if not found:
            state = CaseState.PASS if report.tried else CaseState.SKIPPED
            yield Result(subject.label, "topology", rule, rule, state, "; ".join(report.not_tried), "", seconds)


def _patient(action: Forward | Redirect | Respond) -> Forward | Redirect | Respond:
    return replace(action, timeouts=Timeouts()) if isinstance(action, Forward) else action


def _without_limits(plan: Plan) -> Plan:
    listeners = (
        replace(x, address="127.0.0.1", max_connections=None, timeouts=ClientTimeouts()) for x in plan.listeners
    )
    routes = (replace(x, rate_limit=None, concurrency=None, action=_patient(x.action)) for x in plan.routes)
    pools = (replace(x, max_per_endpoint=None, queue=None) for x in plan.pools)
    return replace(plan, listeners=tuple(listeners), routes=tuple(routes), pools=tuple(pools))
