"""Retries of a route."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.haproxy.statements import Statement, acl, statement
from lbgen.engines.haproxy.view import Contributor, PoolUse
from lbgen.plan.model import Forward, Plan
from lbgen.plan.policy import IDEMPOTENT, RetryCause

_RETRYABLE_STATUSES = (401, 403, 404, 408, 425, 500, 501, 502, 503, 504)
_RETRY_ON = {
    RetryCause.CONNECT_FAILURE: ("conn-failure",),
    RetryCause.RESET: ("empty-response", "junk-response"),
    RetryCause.TIMEOUT: ("response-timeout",),
}


def _backend(use: PoolUse) -> Iterator[Statement]:
    """Each try goes to another endpoint, where there is one. What failed before it was sent is retried for any
    method; what HAProxy still has in its buffer is sent again."""
    retries, origin = use.retries, use.pool.field
    if retries is None:
        return
    causes = [word for cause, retry_on in _RETRY_ON.items() if cause in retries.causes for word in retry_on]
    causes += map(str, retries.statuses)
    yield statement(f"retries {retries.max}", origin=origin)
    yield statement("option redispatch 1", origin=origin)
    yield statement("retry-on", *causes, origin=origin)
    if not retries.all_methods and causes != ["conn-failure"]:
        yield statement("http-request disable-l7-retry", when=[~acl("method", *IDEMPOTENT)], origin=origin)


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route in plan.routes:
        if not isinstance(route.action, Forward) or (retries := route.action.retries) is None:
            continue
        where = f"{route.field}.retries"
        if other := [status for status in retries.statuses if status not in _RETRYABLE_STATUSES]:
            note = f"HAProxy retries on {', '.join(map(str, _RETRYABLE_STATUSES))}, not on {', '.join(map(str, other))}"
            yield Objection(refused(note), where, "route.retries")
        unchecked = [p for p in (plan.pool(t.pool) for t in route.action.targets) if not (p.active or p.passive)]
        has_backup = any(endpoint.backup for pool in unchecked for endpoint in pool.endpoints)
        if RetryCause.CONNECT_FAILURE in retries.causes and has_backup:
            note = "a retry does not use a backup; without health checks a backup never serves"
            yield Objection(
                approximate(note, {"pool.backup.by_retry": ("status 502", "status 503")}), where, "pool.backup"
            )


RETRIES = Contributor(backend=_backend, objections=_objections)
