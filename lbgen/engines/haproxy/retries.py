"""Retries of a route -> statements of its backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Line, line
from lbgen.plan.policy import IDEMPOTENT, REPLAYED_BODY, RetryCause

if TYPE_CHECKING:
    from lbgen.plan.model import Endpoint, Pool
    from lbgen.plan.policy import Retries

STATUSES = (401, 403, 404, 408, 425, 500, 501, 502, 503, 504)  # that HAProxy can retry on
_CAUSES = {
    RetryCause.CONNECT_FAILURE: ("conn-failure",),
    RetryCause.RESET: ("empty-response", "junk-response"),
    RetryCause.TIMEOUT: ("response-timeout",),
}


def waits(pool: Pool) -> bool:
    """Whether HAProxy waits, for the connect time or a second, before it connects again after a refusal: it does where
    it knows one server alone, and one whose requests are counted cannot stand there twice."""
    return len(serving(pool)) == 1 and pool.max_per_endpoint is not None


def lone(retries: Retries | None, pool: Pool) -> Endpoint | None:
    """The only endpoint that serves, when its refusals are retried: it has to stand there twice, or HAProxy waits."""
    if retries is None or RetryCause.CONNECT_FAILURE not in retries.causes or waits(pool):
        return None
    found = serving(pool)
    return found[0] if len(found) == 1 else None


def serving(pool: Pool) -> list[Endpoint]:
    """Endpoints that get requests while they are up."""
    return [endpoint for endpoint in pool.endpoints if endpoint.weight and not endpoint.backup]


def retry_lines(retries: Retries, pool: Pool, held: list[str], *, flows: bool) -> list[Line]:
    """Each try goes to another endpoint. A connect failure is retried for any method and body, as nothing was sent.

    `held`: the keys of routes whose bodies are sent again whatever their length; `flows`: there are others.
    """
    words = [word for cause, words in _CAUSES.items() if cause in retries.causes for word in words]
    words += [str(status) for status in retries.statuses]
    lines = [
        line(pool.field, f"retries {retries.max}"),
        line(pool.field, "option redispatch 1"),
        line(pool.field, "retry-on", *words),
    ]
    if not retries.all_methods:
        lines.append(line(pool.field, f"http-request disable-l7-retry if !{{ method {' '.join(IDEMPOTENT)} }}"))
    if flows and words != ["conn-failure"]:
        pieces = [held[i : i + 40] for i in range(0, len(held), 40)]
        unless = "".join(f" !{{ var(txn.route) -m str {' '.join(piece)} }}" for piece in pieces)
        # HAProxy would send whatever had come in one piece with its head.
        lines.append(
            line(pool.field, f"http-request disable-l7-retry if {{ req.body_size gt {REPLAYED_BODY} }}{unless}")
        )
    return lines
