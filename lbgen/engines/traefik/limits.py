"""Limits as middlewares: access, rate, concurrency, sizes of bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.traefik.matching import NO_CLIENT, call
from lbgen.engines.traefik.timeouts import duration
from lbgen.plan.policy import Key, KeyKind

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.policy import Access, Concurrency, RateLimit

_IN_MEMORY = 1024 * 1024  # bytes of a body; the rest is in a file
# The only field that has one value on all requests: Traefik sets it, whatever a client sends.
_SAME_FOR_ALL = "X-Forwarded-Server"


def answer_with(status: int) -> dict[str, Data]:
    """The middleware that answers every request with this status and its phrase: an access list that admits none."""
    return {"ipAllowList": {"sourceRange": [NO_CLIENT], "rejectStatusCode": status}}


def build_access(access: Access) -> dict[str, Data]:
    """The access list without what is denied; see `denied_clients`. Empty when all the others are admitted."""
    if access.allow is None:
        return {}
    return {"ipAllowList": {"sourceRange": list(access.allow) or [NO_CLIENT]}}


def denied_clients(access: Access | None) -> str:
    """The condition of a router for the clients that the list denies; "" for none."""
    return " || ".join(call("ClientIP", network) for network in access.deny) if access is not None else ""


def build_rate_limit(rate: RateLimit) -> dict[str, Data]:
    period: Data = duration(rate.seconds * 1000)
    return {
        "rateLimit": {
            "average": rate.amount,
            "period": period,
            "burst": rate.burst,
            "sourceCriterion": _source(rate.key),
        }
    }


def build_concurrency(concurrency: Concurrency) -> dict[str, Data]:
    return {"inFlightReq": {"amount": concurrency.max, "sourceCriterion": _source(concurrency.key)}}


def build_buffering() -> dict[str, Data]:
    """Reads bodies of requests and responses whole. The middleware may not be empty."""
    return {"buffering": {"memRequestBodyBytes": _IN_MEMORY}}


def _source(key: Key) -> dict[str, Data]:
    if key.kind is KeyKind.CLIENT_IP:
        return {"ipStrategy": {"depth": 0}}
    return {"requestHeaderName": _SAME_FOR_ALL if key.kind is KeyKind.ROUTE else key.name}
