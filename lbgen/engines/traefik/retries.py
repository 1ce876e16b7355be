"""Retries as Traefik's retry middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.policy import REPLAYED_BODY, RetryCause

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.policy import Retries

# What Traefik answers itself where an endpoint resets the connection, or is late; an endpoint's own count as well.
_STATUSES = {RetryCause.RESET: 502, RetryCause.TIMEOUT: 504}


def build_retries(retries: Retries) -> dict[str, Data]:
    """Without statuses only failed connections are retried, which is nearly free; with them bodies are kept in memory,
    by default in 2 MiB for each request."""
    data: dict[str, Data] = {"attempts": retries.max + 1}
    own = [status for cause, status in _STATUSES.items() if cause in retries.causes]
    if statuses := sorted({*retries.statuses, *own}):
        data["status"] = [str(status) for status in statuses]
        data["maxRequestBodyBytes"] = REPLAYED_BODY
        if retries.all_methods:
            data["retryNonIdempotentMethod"] = True
        if RetryCause.CONNECT_FAILURE not in retries.causes:
            data["disableRetryOnNetworkError"] = True
    return {"retry": data}
