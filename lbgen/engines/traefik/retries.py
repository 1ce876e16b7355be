"""Retries as Traefik's middleware."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.traefik.view import Contributor, HttpRoute
from lbgen.plan.policy import REPLAYED_BODY, RetryCause

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# What Traefik answers itself where an endpoint resets the connection, or is late; an endpoint's own count as well.
_STATUSES = {RetryCause.RESET: 502, RetryCause.TIMEOUT: 504}


def _middlewares(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    """Without statuses only failed connections are retried, which is nearly free; with them bodies are kept in memory,
    by default in 2 MiB for each request."""
    retries = None if at.forward is None else at.forward.retries
    if retries is None:
        return
    data: dict[str, Data] = {"attempts": retries.max + 1}
    own = [status for cause, status in _STATUSES.items() if cause in retries.causes]
    if statuses := sorted({*retries.statuses, *own}):
        data["status"] = [str(status) for status in statuses]
        data["maxRequestBodyBytes"] = REPLAYED_BODY
        if retries.all_methods:
            data["retryNonIdempotentMethod"] = True
        if RetryCause.CONNECT_FAILURE not in retries.causes:
            data["disableRetryOnNetworkError"] = True
    yield "retry", {"retry": data}


RETRIES = Contributor(middlewares=_middlewares)
