"""Times of a client and of a route -> Envoy's clocks for silence.

Envoy has one clock for a request: it runs while the client sends its body, while the answer is waited for, and within
the answer. A request whose head is all has no silence of its client, so it gets a route of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.forwarded_headers import PROTO, TRANSFER_CODING
from lbgen.engines.envoy.lua import build_lua_filter, build_lua_per_route, load_lua
from lbgen.engines.envoy.retries import build_retry_policy, has_idle_before_response
from lbgen.plan.model import Forward
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import Listener, Plan, Pool, Route

HEAD_ONLY = "head-only"
"""The name of the filter that marks requests without a body."""
_MARK = "head-only"
IS_HEAD_ONLY: dict[str, Data] = {"name": TRANSFER_CODING, "string_match": {"exact": _MARK}}
"""What a request's headers are once the filter has marked it."""
HEAD_ONLY_ENABLED = build_lua_per_route({"marks": True})
# An upgrade has a route of its own, and its bytes would be taken for a body that never ends.
# A GET or HEAD that announces no body has none, or one that is read first, in the time that a client has for its body.
# Envoy finds no route for a request without X-Forwarded-Proto, which may be removed by then; metadata() looks it up.


@record
class IdleTimeouts:
    """`policy`: fields of a route action for its tries. The clock's milliseconds (0 = any): `head_only` for requests
    without a body, `others` for those that may have one."""

    policy: dict[str, Data]
    head_only: int
    others: int

    @property
    def is_single(self) -> bool:
        """Whether one route serves both."""
        return self.head_only == self.others


def compute_idle_timeouts(forward: Forward, pools: list[Pool], body: int, *, everything: bool) -> IdleTimeouts:
    """The clocks of a route's requests; `body` (ms, 0 = any) is the longest silence of a client within a body."""
    idle = forward.timeouts.idle
    watched = has_idle_before_response(forward) and (not body or idle < body)
    policy, longest = build_retry_policy(forward, pools, everything=everything, watched=watched)
    watched = watched or not idle  # nothing is lost when the clock waits for longer than the answer may be silent
    if watched and (not body or 0 < longest <= body):
        return IdleTimeouts(policy, body, body)
    return IdleTimeouts(policy, longest, body)


def list_idle_timeouts(plan: Plan, route: Route, listeners: Iterable[Listener]) -> list[IdleTimeouts]:
    """The clocks of a route, once for each time that its listeners give clients for a body."""
    if not isinstance(route.action, Forward):
        return []
    pools = [plan.pool(target.pool) for target in route.action.targets if target.weight]
    bodies = {listener.timeouts.body for listener in listeners}
    return [compute_idle_timeouts(route.action, pools, body, everything=True) for body in sorted(bodies)]


def needs_head_only_filter(routes: Iterable[Route], body: int, clusters: Clusters) -> bool:
    """Whether some route asks for requests without a body to be marked."""
    for route in routes:
        if isinstance(route.action, Forward):
            pools = [clusters.pools[target.pool] for target in route.action.targets if target.weight]
            if not all(
                compute_idle_timeouts(route.action, pools, body, everything=each).is_single for each in (True, False)
            ):
                return True
    return False


def build_head_only_filter() -> dict[str, Data]:
    """Marks requests without a body, which then find the route of theirs."""
    code = load_lua("head_only", coding=TRANSFER_CODING, mark=_MARK, proto=PROTO)
    return build_lua_filter(HEAD_ONLY, code, disabled=True)
