"""Retries: Envoy's retry policies, one for each group of methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.protobuf import extension
from lbgen.engines.envoy.timeouts import build_try_timeouts
from lbgen.plan.policy import IDEMPOTENT, RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.document import Data
    from lbgen.plan.model import Forward, Pool
    from lbgen.plan.policy import Retries

_MAX_SELECTIONS = 1000  # how many times the balancer looks for an endpoint that was not tried, at most
_RESENT = 1 << 20  # bytes; what a listener holds by itself is less than a client sends while a connection fails
_FOR_ANY_REQUEST = {RetryCause.CONNECT_FAILURE}


def group_retries(forward: Forward, methods: tuple[str, ...]) -> Iterator[tuple[bool, list[dict[str, Data]]]]:
    """The retry groups of a route in the order of matching: (whether all causes are retried, header matches of the
    request). A failed connect is retried for any request, other causes for idempotent methods."""
    retries = forward.retries
    if retries is None or not (retries.statuses or retries.causes - _FOR_ANY_REQUEST):
        yield True, []
        return
    safe = [method for method in methods if method in IDEMPOTENT]
    if methods and not safe and not retries.all_methods:
        yield False, []
    elif retries.all_methods or (methods and len(safe) == len(methods)):
        yield True, []
    else:
        yield True, [{"name": ":method", "string_match": regex("|".join(safe or IDEMPOTENT))}]
        yield False, []


def count_tries(forward: Forward) -> int:
    """How many tries a request may have."""
    return 1 if forward.retries is None else 1 + forward.retries.max


def build_resend_limit(forward: Forward) -> dict[str, Data]:
    """The field of a route for the bodies that may be sent again; a longer one is not retried."""
    return {} if forward.retries is None else {"request_body_buffer_limit": _RESENT}


def build_retry_policy(forward: Forward, pools: list[Pool], idle: int, *, everything: bool) -> dict[str, Data]:
    """The field of a route action for retries and the times of a try; `idle` is the request's idle timeout."""
    found = build_try_timeouts(forward.timeouts, idle)
    causes = [] if forward.retries is None else _retry_on(forward.retries, everything=everything)
    if forward.retries is not None and causes:
        found |= {"retry_on": ",".join(causes), "num_retries": forward.retries.max, **_other_endpoints(pools)}
        if "retriable-status-codes" in causes:
            found["retriable_status_codes"] = list(forward.retries.statuses)
        # The shortest interval; by default Envoy waits 25 ms on average before the first retry, then longer.
        found["retry_back_off"] = {"base_interval": "0.001s", "max_interval": "0.001s"}
    return {"retry_policy": found} if found else {}


def _retry_on(retries: Retries, *, everything: bool) -> list[str]:
    found = ["connect-failure"] if RetryCause.CONNECT_FAILURE in retries.causes else []
    if not everything:
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
