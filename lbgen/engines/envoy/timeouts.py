"""Timeouts of clients and routes as Envoy's idle timeout.

Envoy has one idle clock per request: it runs while the client sends the body, while the endpoint prepares the response,
and within the response. A request without a body does not wait for its client, so it has a route with another timeout.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.envoy.forwarded_headers import PROTO, TRANSFER_CODING
from lbgen.engines.envoy.lua import build_lua_filter, build_lua_per_route, load_lua
from lbgen.engines.envoy.protobuf import duration
from lbgen.engines.envoy.retries import build_retry_policy, has_idle_before_response
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import ClientTimeouts, Listener, Plan, Pool, Route, Timeouts

_LEAST_CLOSE, _MOST_CLOSE = 50, 1000  # ms

HEAD_ONLY = "head-only"
"""The name of the filter that marks requests without a body."""
_MARK = "head-only"
IS_HEAD_ONLY: dict[str, Data] = {"name": TRANSFER_CODING, "string_match": {"exact": _MARK}}
"""The header match of a request that the filter has marked."""
HEAD_ONLY_ENABLED = build_lua_per_route({"marks": True})


class IdleTimeouts(Struct, frozen=True, eq=False):
    """`policy`: the retry policy, as fields of a route action. Idle timeouts in ms (0 = none): `head_only` for requests
    without a body, `others` for those that may have one."""

    policy: dict[str, Data]
    head_only: int
    others: int

    @property
    def is_single(self) -> bool:
        """Whether one route serves both."""
        return self.head_only == self.others


def compute_idle_timeouts(forward: Forward, pools: list[Pool], body: int, *, everything: bool) -> IdleTimeouts:
    """The idle timeouts of a route's requests; `body` is the client's idle timeout within a body (ms, 0 = none)."""
    if forward.retries is None and not any(pool.queue for pool in pools):
        return _without_retries(forward.timeouts, body, passive=any(pool.passive for pool in pools))
    return _compute(forward, pools, body, everything=everything, plain=False)


@lru_cache(maxsize=1024)  # most routes have the same
def _without_retries(times: Timeouts, body: int, *, passive: bool) -> IdleTimeouts:
    return _compute(Forward((), times), [], body, everything=True, plain=not passive)


def _compute(forward: Forward, pools: list[Pool], body: int, *, everything: bool, plain: bool) -> IdleTimeouts:
    """`plain`: nothing but the route's times concerns a try."""
    idle = forward.timeouts.idle
    watched = has_idle_before_response(forward) and (not body or idle < body)
    policy, longest = build_retry_policy(forward, pools, everything=everything, watched=watched)
    watched = watched or not idle  # the try has its own clock, or none is needed
    head_only = body if watched and (not body or 0 < longest <= body) else longest
    if plain and all(0 < each <= forward.timeouts.response for each in (idle, head_only, body)):
        policy = {}  # the idle timeout ends the wait for a head no later, and a timer less runs
    return IdleTimeouts(policy, head_only, body)


def stream_idle_timeout(times: ClientTimeouts) -> int:
    """The idle timeout of requests whose route has none of its own; its clock starts at the first byte of a head."""
    return 0 if 0 in (times.header, times.body) else max(times.header, times.body)


def build_client_timeouts(listener: Listener, routes: Iterable[Route]) -> dict[str, Data]:
    """The fields of a connection manager for the times of a head, within a body, and of the end of an HTTP/2 response
    that waits for its client. Nothing but a complete head starts the idle clock anew, so it bounds the head as well
    where it has the same time, and a timer less runs. Nothing at all starts the last clock anew, which without a time
    of its own has that of the idle clock: it gets the longest idle time of the routes."""
    times = listener.timeouts
    idle = stream_idle_timeout(times)
    fields: dict[str, Data] = {} if times.header == idle else {"request_headers_timeout": duration(times.header)}
    fields["stream_idle_timeout"] = duration(idle)
    silences = [idle, *(route.action.timeouts.idle for route in routes if isinstance(route.action, Forward))]
    longest = 0 if 0 in silences else max(silences)
    if listener.http2 and longest != idle:
        fields["stream_flush_timeout"] = duration(longest)
    return fields


def compute_close_timeout(times: ClientTimeouts, routes: Iterable[Route]) -> int:
    """How long Envoy waits, in ms, while a client takes nothing of the last response on a connection: the rest is lost
    then. It also waits before each end by a timeout and reads nothing meanwhile, hence 5 % of the shortest of these."""
    idle = [route.action.timeouts.idle for route in routes if isinstance(route.action, Forward)]
    ends = [time for time in (times.keepalive, times.header, times.body, *idle) if time]
    return max(_LEAST_CLOSE, min([_MOST_CLOSE, *(time // 20 for time in ends)]))


def list_idle_timeouts(plan: Plan, route: Route, listeners: Iterable[Listener]) -> list[IdleTimeouts]:
    """The idle timeouts of a route, one for each client_body time of its listeners."""
    if not isinstance(route.action, Forward):
        return []
    pools = [plan.pool(target.pool) for target in route.action.targets if target.weight]
    bodies = {listener.timeouts.body for listener in listeners}
    return [compute_idle_timeouts(route.action, pools, body, everything=True) for body in sorted(bodies)]


def needs_head_only_filter(routes: Iterable[Route], body: int, clusters: Clusters) -> bool:
    """Whether some route distinguishes requests without a body."""
    distinct = {
        (action.timeouts, action.retries, tuple(target.pool for target in action.targets if target.weight)): action
        for action in (route.action for route in routes)
        if isinstance(action, Forward)
    }
    for (_, _, names), action in distinct.items():
        pools = [clusters.pools[name] for name in names]
        if not all(compute_idle_timeouts(action, pools, body, everything=each).is_single for each in (True, False)):
            return True
    return False


def build_head_only_filter() -> dict[str, Data]:
    """The filter that marks requests without a body and looks up their route again."""
    code = load_lua("head_only", coding=TRANSFER_CODING, mark=_MARK, proto=PROTO)
    return build_lua_filter(HEAD_ONLY, code, disabled=True)
