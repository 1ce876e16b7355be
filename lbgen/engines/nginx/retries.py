"""Retries: nginx's own, which try each endpoint of the pool once at most."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import Contributor, HttpForward, Lines
from lbgen.plan.model import Forward, Plan
from lbgen.plan.policy import RetryCause

# `error` is a refused connection as well as one that breaks, `timeout` the time to connect as well as to respond.
_CONDITIONS = {
    RetryCause.CONNECT_FAILURE: ("error", "timeout"),
    RetryCause.RESET: ("error",),
    RetryCause.TIMEOUT: ("timeout",),
}
_STATUSES = (403, 404, 429, 500, 502, 503, 504)


def _forward(at: HttpForward) -> Lines:
    """nginx repeats POST, PATCH and LOCK only where nothing was sent yet, which is all that `connect_failure` asks for,
    unless `non_idempotent` is set."""
    policy = at.action.retries
    if policy is None:
        return
    causes = {word for cause in policy.causes for word in _CONDITIONS[cause]}
    conditions = [*sorted(causes), *(f"http_{status}" for status in policy.statuses)]
    if policy.all_methods and (policy.statuses or policy.causes - {RetryCause.CONNECT_FAILURE}):
        conditions.append("non_idempotent")
    yield directive(f"{at.protocol.module}_next_upstream", *conditions)
    yield directive(f"{at.protocol.module}_next_upstream_tries", str(policy.max + 1))


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route in plan.routes:
        policy = route.action.retries if isinstance(route.action, Forward) else None
        others = [str(status) for status in policy.statuses if status not in _STATUSES] if policy else ()
        if others:
            why = f"nginx retries the statuses {', '.join(map(str, _STATUSES))}, not {', '.join(others)}"
            yield Objection(refused(why), f"{route.field}.retries.on", "route.retries")


RETRIES = Contributor(forward=_forward, objections=_objections)
