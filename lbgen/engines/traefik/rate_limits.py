"""Limits by key: the rate of requests, and how many are under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.traefik.timeouts import duration
from lbgen.engines.traefik.view import CAN, Contributor, HttpRoute, http_routes
from lbgen.plan.model import Plan, Route
from lbgen.plan.policy import Key, KeyKind

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# The only field that has one value on all requests: Traefik sets it, whatever a client sends.
_SAME_FOR_ALL = "X-Forwarded-Server"

_TOGETHER = "requests without the header, or with an empty one, are counted together"
_SHARED_BUCKETS = {
    "route.rate_limit": habit(_TOGETHER, {"route.rate_limit.routes": "rate"}),
    "route.concurrency": habit(_TOGETHER, {"route.concurrency.routes": "places"}),
}
_FORGED = refused(f"Traefik cannot tell who made an X-Request-Id before it counts{CAN}")


def _middlewares(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    rate, concurrency = at.route.rate_limit, at.route.concurrency
    if rate is not None:
        limit: dict[str, Data] = {"average": rate.amount, "period": duration(rate.seconds * 1000), "burst": rate.burst}
        yield "rate", {"rateLimit": {**limit, "sourceCriterion": _source(rate.key)}}
    if concurrency is not None:
        yield "concurrency", {"inFlightReq": {"amount": concurrency.max, "sourceCriterion": _source(concurrency.key)}}


def _source(key: Key) -> dict[str, Data]:
    if key.kind is KeyKind.CLIENT_IP:
        return {"ipStrategy": {"depth": 0}}
    return {"requestHeaderName": _SAME_FOR_ALL if key.kind is KeyKind.ROUTE else key.name}


def _by_client(_: Plan, route: Route) -> bool:
    return any(each and each.key.kind is KeyKind.CLIENT_IP for each in (route.rate_limit, route.concurrency))


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route in http_routes(plan):
        for name, limit, feature in (
            ("rate_limit", route.rate_limit, "route.rate_limit"),
            ("concurrency", route.concurrency, "route.concurrency"),
        ):
            if limit is not None and limit.key.kind is KeyKind.HEADER:
                verdict = _FORGED if limit.key.name == "x-request-id" else _SHARED_BUCKETS[feature]
                yield Objection(verdict, f"{route.field}.{name}.key", feature)


RATE_LIMITS = Contributor(middlewares=_middlewares, answers=True, by_client=_by_client, objections=_objections)
