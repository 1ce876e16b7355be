"""Retries: Envoy's retry policies, one for each group of methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.protobuf import duration, extension
from lbgen.plan.policy import IDEMPOTENT, REPLAYED_BODY, RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.document import Data
    from lbgen.plan.model import Forward, Pool
    from lbgen.plan.policy import Retries

_MAX_SELECTIONS = 1000  # how many times the balancer looks for an endpoint that was not tried, at most
_FOR_ANY_REQUEST = {RetryCause.CONNECT_FAILURE}
LONG_BODY: dict[str, Data] = {"name": "content-length", "range_match": {"start": REPLAYED_BODY + 1, "end": 2**63 - 1}}
"""The header match of requests whose body is too long to be sent again."""
_SLACK = 500  # ms for the time between tries


def group_retries(forward: Forward, methods: tuple[str, ...]) -> Iterator[tuple[bool, list[dict[str, Data]]]]:
    """The retry groups of a route in the order of matching: (whether all causes are retried, header matches of the
    request).

    A failed connect is retried for any request; other causes for idempotent methods and bodies that are short or
    buffered.
    """
    retries = forward.retries
    if retries is None or not (retries.statuses or retries.causes - _FOR_ANY_REQUEST):
        yield True, []
        return
    safe = [method for method in methods if method in IDEMPOTENT]
    if methods and not safe and not retries.all_methods:
        yield False, []
        return
    if not forward.buffering.request:
        yield False, [LONG_BODY]
    if retries.all_methods or (methods and len(safe) == len(methods)):
        yield True, []
    else:
        yield True, [{"name": ":method", "string_match": regex("|".join(safe or IDEMPOTENT))}]
        yield False, []


def build_retry_policy(
    forward: Forward, pools: list[Pool], *, everything: bool, watched: bool = False
) -> tuple[dict[str, Data], int]:
    """The retry policy as fields of a route action, and the idle timeout of the request (ms, 0 = none).

    Envoy's idle timeout runs through all tries, so with retries each try has one of its own; `watched` asks for it
    without retries too, where the request's idle timeout has another value.
    """
    times = forward.timeouts
    found: dict[str, Data] = {}
    silence = times.idle
    if times.response:
        # The route's own timeout would include the body; that of a try ends with the response head.
        found["per_try_timeout"] = duration(times.response)
    causes = [] if forward.retries is None else _retry_on(forward.retries, everything=everything)
    waits = max((pool.queue.timeout for pool in pools if pool.queue is not None), default=0)
    retry_count = 0
    if forward.retries is not None and causes:
        retry_count = forward.retries.max
        found |= {"retry_on": ",".join(causes), "num_retries": retry_count, **_other_endpoints(pools)}
        if "retriable-status-codes" in causes:
            found["retriable_status_codes"] = list(forward.retries.statuses)
        # The shortest interval; by default Envoy waits 25 ms on average before the first retry, then longer.
        found["retry_back_off"] = {"base_interval": "0.001s", "max_interval": "0.001s"}
    if times.idle and (retry_count or waits or watched):
        found["per_try_idle_timeout"] = duration(times.idle)
        if has_idle_before_response(forward):
            # This timeout covers the wait for a head too. Once per_try_timeout is over, Envoy stops the idle timeout of
            # the try.
            found.pop("per_try_timeout", None)
    if times.idle and (retry_count or waits):
        answer = min(times.response or times.idle, times.idle)
        tried = (1 + retry_count) * times.connect + (
            answer if causes == ["connect-failure"] else (1 + retry_count) * answer
        )
        silence = max(times.idle, tried + waits + _SLACK) if times.connect else 0
    return ({"retry_policy": found} if found else {}), silence


def build_resend_limit(forward: Forward, *, everything: bool) -> dict[str, Data]:
    """The field of a route that limits the bodies which are sent again: a body of unknown length has no other limit."""
    retries = forward.retries
    if (
        retries is None
        or forward.buffering.request
        or not everything
        or not (retries.statuses or retries.causes - _FOR_ANY_REQUEST)
    ):
        return {}
    return {"request_body_buffer_limit": REPLAYED_BODY}


def has_idle_before_response(forward: Forward) -> bool:
    """Whether the idle timeout is shorter than the response timeout, so that one clock serves both."""
    times = forward.timeouts
    return times.idle > 0 and not 0 < times.response < times.idle


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
