"""Retries: Envoy's retry policies, one for each group of methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.protobuf import extension
from lbgen.engines.envoy.timeouts import build_try_timeouts, find_idle_timeout
from lbgen.engines.envoy.view import Contributor, HttpRoute, http_routes
from lbgen.plan.model import Balance, Forward, Plan, Pool, Route
from lbgen.plan.policy import IDEMPOTENT, Retries, RetryCause

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_MAX_SELECTIONS = 1000  # how many times the balancer looks for an endpoint that was not tried, at most
_RESENT = 1 << 20  # bytes; what a listener holds by itself is less than a client sends while a connection fails
_FOR_ANY_REQUEST = {RetryCause.CONNECT_FAILURE}
_ALTERED_BODY = refused(
    "beside `buffering.request`, Envoy 1.37 sends other bytes than the client's at a try before the last, where the "
    "body has no length; 1.38 does not"
)


def _split(at: HttpRoute) -> Iterator[HttpRoute]:
    """A failed connect is retried for any request, other causes for idempotent methods."""
    retries, methods = None if at.forward is None else at.forward.retries, at.rule.match.methods
    if retries is None or retries.all_methods or not (retries.statuses or retries.causes - _FOR_ANY_REQUEST):
        yield at
        return
    safe = [method for method in methods if method in IDEMPOTENT]
    if methods and not safe:
        yield replace(at, resent=False)
    elif methods and len(safe) == len(methods):
        yield at
    else:
        is_safe: Data = {"name": ":method", "string_match": regex("|".join(safe or IDEMPOTENT))}
        yield replace(at, headers=(*at.headers, is_safe))
        yield replace(at, resent=False)


def _route(at: HttpRoute) -> dict[str, Data]:
    """The policy of retries with the times of a try, and which bodies may be sent again; longer ones are not."""
    if at.forward is None:
        return {}
    pools = [at.on.clusters.pools[target.pool] for target in at.forward.targets if target.weight]
    policy = _build_policy(at.forward, pools, find_idle_timeout(at.forward, at.on.listener), resent=at.resent)
    found: dict[str, Data] = {"route": {"retry_policy": policy}} if policy else {}
    return found if at.forward.retries is None or at.tunnel else {**found, "request_body_buffer_limit": _RESENT}


def _build_policy(forward: Forward, pools: list[Pool], idle: int, *, resent: bool) -> dict[str, Data]:
    found = build_try_timeouts(forward.timeouts, idle)
    causes = [] if forward.retries is None else _retry_on(forward.retries, resent=resent)
    if forward.retries is not None and causes:
        found |= {"retry_on": ",".join(causes), "num_retries": forward.retries.max, **_other_endpoints(pools)}
        if "retriable-status-codes" in causes:
            found["retriable_status_codes"] = list(forward.retries.statuses)
        # The shortest interval; by default Envoy waits 25 ms on average before the first retry, then longer.
        found["retry_back_off"] = {"base_interval": "0.001s", "max_interval": "0.001s"}
    return found


def _retry_on(retries: Retries, *, resent: bool) -> list[str]:
    found = ["connect-failure"] if RetryCause.CONNECT_FAILURE in retries.causes else []
    if not resent:
        return found
    if retries.causes & {RetryCause.RESET, RetryCause.TIMEOUT}:
        found += ["reset", "refused-stream"]
    if retries.statuses:
        found.append("retriable-status-codes")
    return found


def _other_endpoints(pools: list[Pool]) -> dict[str, Data]:
    """Retries go to endpoints that were not tried; to backups after all others."""
    if all(len(pool.endpoints) == 1 for pool in pools):
        return {}
    weights = [sum(endpoint.weight for endpoint in pool.endpoints) for pool in pools]
    found: dict[str, Data] = {
        "retry_host_predicate": [
            extension(
                "envoy.retry_host_predicates.previous_hosts", "retry.host.previous_hosts.v3.PreviousHostsPredicate"
            )
        ],
        "host_selection_retry_max_attempts": min(_MAX_SELECTIONS, 8 * max(weights)),
    }
    backed = [pool for pool in pools if any(endpoint.backup for endpoint in pool.endpoints)]
    if backed:
        first = min(sum(1 for e in pool.endpoints if not e.backup and e.weight) for pool in backed)
        found["retry_priority"] = extension(
            "envoy.retry_priorities.previous_priorities",
            "retry.priority.previous_priorities.v3.PreviousPrioritiesConfig",
            {"update_frequency": max(1, first)},
        )
    return found


def _objections(plan: Plan, version: str) -> Iterator[Objection]:
    for route, _ in http_routes(plan):
        forward = route.action
        if isinstance(forward, Forward) and forward.retries is not None:
            yield from _route_objections(plan, route, forward, forward.retries)
            if version == "1.37" and forward.buffering.request:
                yield Objection(_ALTERED_BODY, f"{route.field}.retries", "route.retries")


def _route_objections(plan: Plan, route: Route, forward: Forward, retries: Retries) -> Iterator[Objection]:
    place = f"{route.field}.retries"
    asked = retries.causes
    alike = frozenset(RetryCause)
    if asked & {RetryCause.RESET, RetryCause.TIMEOUT} and asked != alike:
        more = " or ".join(sorted(cause.value for cause in alike - asked))
        note = f"Envoy does not distinguish reset, timeout and connect_failure here: it also retries after {more}"
        shows = {"route.retries.alike": ("tries", "time")}
        yield Objection(habit(note, shows), f"{place}.on", "route.retries")
    pools = [plan.pool(target.pool) for target in forward.targets if target.weight]
    if any(pool.balance is Balance.LEAST_CONNECTIONS and len(pool.endpoints) > 1 for pool in pools):
        note = "with least_connections a retry may go to the endpoint that failed while all others are busier"
        back = {"route.retries.untried": "tries"}
        yield Objection(habit(note, back), place, "route.retries")


RETRIES = Contributor(split=_split, route=_route, objections=_objections)
