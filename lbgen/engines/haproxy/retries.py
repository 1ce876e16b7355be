"""Retries of a route, as statements of its backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, acl, batches, is_one_of, statement
from lbgen.plan.policy import IDEMPOTENT, REPLAYED_BODY, RetryCause

if TYPE_CHECKING:
    from lbgen.plan.model import Endpoint, Pool
    from lbgen.plan.policy import Retries

RETRYABLE_STATUSES = (401, 403, 404, 408, 425, 500, 501, 502, 503, 504)
_RETRY_ON = {
    RetryCause.CONNECT_FAILURE: ("conn-failure",),
    RetryCause.RESET: ("empty-response", "junk-response"),
    RetryCause.TIMEOUT: ("response-timeout",),
}


def waits_before_reconnect(pool: Pool) -> bool:
    """Whether HAProxy waits, for the connect time or a second, before it reconnects after a refused connection.

    It does when the backend has a single server; a server with `maxconn` cannot be listed twice to avoid that.
    """
    return len(serving_endpoints(pool)) == 1 and pool.max_per_endpoint is not None


def listed_twice(retries: Retries | None, pool: Pool) -> Endpoint | None:
    """The only endpoint that serves, when refused connections are retried: a second `server` for it spares the wait."""
    if retries is None or RetryCause.CONNECT_FAILURE not in retries.causes or waits_before_reconnect(pool):
        return None
    serving = serving_endpoints(pool)
    return serving[0] if len(serving) == 1 else None


def serving_endpoints(pool: Pool) -> list[Endpoint]:
    """Endpoints that get requests while they are up."""
    return [endpoint for endpoint in pool.endpoints if endpoint.weight and not endpoint.backup]


def keeps_requests(retries: Retries | None) -> bool:
    """Whether HAProxy keeps each request, to send it again after it was sent."""
    return retries is not None and bool(retries.statuses or set(retries.causes) - {RetryCause.CONNECT_FAILURE})


def retry_statements(retries: Retries, pool: Pool, held: list[str], *, streams: bool) -> list[Statement]:
    """Each try goes to another endpoint. A connect failure is retried for any method and body, as nothing was sent.

    `held` are the keys of routes that buffer requests, whose bodies of any length are sent again; `streams`: some
    routes of the backend do not buffer.
    """
    causes = [word for cause, retry_on in _RETRY_ON.items() if cause in retries.causes for word in retry_on]
    causes += map(str, retries.statuses)
    no_retry = "http-request disable-l7-retry"
    statements = [
        statement(f"retries {retries.max}", origin=pool.field),
        statement("option redispatch 1", origin=pool.field),
        statement("retry-on", *causes, origin=pool.field),
    ]
    if not retries.all_methods:
        statements.append(statement(no_retry, when=[~acl("method", *IDEMPOTENT)], origin=pool.field))
    if streams and causes != ["conn-failure"]:
        # Without this HAProxy resends any body that arrived together with its head.
        too_long = acl(f"req.body_size gt {REPLAYED_BODY}")
        holds = (~is_one_of("txn.route", keys) for keys in batches(held))
        statements.append(statement(no_retry, when=[too_long, *holds], origin=pool.field))
    return statements
