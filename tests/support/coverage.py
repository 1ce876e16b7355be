"""What `lbgen verify` would leave untried of a plan, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.verify.coverage import fields_not_tried
from lbgen.conformance.verify.credentials import admit_ours
from lbgen.conformance.verify.faults import fault_cases
from lbgen.conformance.verify.requests import request_cases
from lbgen.conformance.verify.run import CLIENT, REQUESTS
from lbgen.runtime.common.issued_certificates import with_self_signed

if TYPE_CHECKING:
    from lbgen.plan.model import Plan


def not_tried(plan: Plan, refused: str = "none") -> tuple[str, ...]:
    """As if every case ran, but those of the clause `refused`, with certificates and users of a verification."""
    plan = admit_ours(with_self_signed(plan))
    cases = [*request_cases(plan, CLIENT, most=REQUESTS, seed=1), *(x.case for x in fault_cases(plan, CLIENT))]
    states = {case.id: CaseState.REFUSED if case.clause == refused else CaseState.PASS for case in cases}
    results = [Result("nginx", "topology", case.id, case.clause, states[case.id]) for case in cases]
    return fields_not_tried(plan, cases, results)
