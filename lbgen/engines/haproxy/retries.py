"""Retries of a route, as statements of its backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, acl, statement
from lbgen.plan.policy import IDEMPOTENT, RetryCause

if TYPE_CHECKING:
    from lbgen.plan.model import Pool
    from lbgen.plan.policy import Retries

RETRYABLE_STATUSES = (401, 403, 404, 408, 425, 500, 501, 502, 503, 504)
_RETRY_ON = {
    RetryCause.CONNECT_FAILURE: ("conn-failure",),
    RetryCause.RESET: ("empty-response", "junk-response"),
    RetryCause.TIMEOUT: ("response-timeout",),
}


def retry_statements(retries: Retries, pool: Pool) -> list[Statement]:
    """Each try goes to another endpoint, where there is one. What failed before it was sent is retried for any
    method; what HAProxy still has in its buffer is sent again."""
    causes = [word for cause, retry_on in _RETRY_ON.items() if cause in retries.causes for word in retry_on]
    causes += map(str, retries.statuses)
    statements = [
        statement(f"retries {retries.max}", origin=pool.field),
        statement("option redispatch 1", origin=pool.field),
        statement("retry-on", *causes, origin=pool.field),
    ]
    if not retries.all_methods and causes != ["conn-failure"]:
        once = statement("http-request disable-l7-retry", when=[~acl("method", *IDEMPOTENT)], origin=pool.field)
        statements.append(once)
    return statements
