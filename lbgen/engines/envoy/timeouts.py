"""Times of a client and of a route -> Envoy's clocks for silence.

Envoy has one clock for a request: it runs while the client sends its body, while the answer is waited for, and within
the answer. A request whose head is all has no silence of its client, so it gets a route of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.forwarded_headers import CODED, PROTO, lua
from lbgen.engines.envoy.retries import silence_ends_tries, tries
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
IS_HEAD_ONLY: dict[str, Data] = {"name": CODED, "string_match": {"exact": _MARK}}
"""What a request's headers are once the filter has marked it."""
SWITCHED_ON: dict[str, Data] = {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.LuaPerRoute",
    "filter_context": {"marks": True},
}
# An upgrade has a route of its own, and its bytes would be taken for a body that never ends.
# A GET or HEAD that announces no body has none, or one that is read first, in the time that a client has for its body.
# Envoy finds no route for a request without X-Forwarded-Proto, which may be removed by then; metadata() looks it up.
_MARKS = f"""\
function envoy_on_request(handle)
  if not handle:filterContext():get("marks") then return end
  local headers = handle:headers()
  local method, length = headers:get(":method"), headers:get("content-length")
  if method ~= "GET" and method ~= "HEAD" or headers:get("upgrade") ~= nil then return end
  if headers:get("{CODED}") ~= nil or (length ~= nil and length ~= "0") then return end
  handle:body()
  headers:replace("{CODED}", "{_MARK}")
  local proto = headers:get("{PROTO}")
  headers:replace("{PROTO}", proto or "http")
  handle:clearRouteCache()
  handle:metadata()
  if proto == nil then headers:remove("{PROTO}") end
end
"""


@record
class Silences:
    """`policy`: fields of a route action for its tries. The clock's milliseconds (0 = any): `head_only` for requests
    without a body, `others` for those that may have one."""

    policy: dict[str, Data]
    head_only: int
    others: int

    @property
    def alike(self) -> bool:
        """Whether one route serves both."""
        return self.head_only == self.others


def silences(forward: Forward, pools: list[Pool], body: int, *, everything: bool) -> Silences:
    """The clocks of a route's requests; `body` (ms, 0 = any) is the longest silence of a client within a body."""
    idle = forward.timeouts.idle
    watched = silence_ends_tries(forward) and (not body or idle < body)
    policy, longest = tries(forward, pools, everything=everything, watched=watched)
    watched = watched or not idle  # nothing is lost when the clock waits for longer than the answer may be silent
    if watched and (not body or 0 < longest <= body):
        return Silences(policy, body, body)
    return Silences(policy, longest, body)


def longest_silences(plan: Plan, route: Route, listeners: Iterable[Listener]) -> list[Silences]:
    """The clocks of a route, once for each time that its listeners give clients for a body."""
    if not isinstance(route.action, Forward):
        return []
    pools = [plan.pool(target.pool) for target in route.action.targets if target.weight]
    bodies = {listener.timeouts.body for listener in listeners}
    return [silences(route.action, pools, body, everything=True) for body in sorted(bodies)]


def marks_head_only(routes: Iterable[Route], body: int, clusters: Clusters) -> bool:
    """Whether some route asks for requests without a body to be marked."""
    for route in routes:
        if isinstance(route.action, Forward):
            pools = [clusters.pools[target.pool] for target in route.action.targets if target.weight]
            if not all(silences(route.action, pools, body, everything=each).alike for each in (True, False)):
                return True
    return False


def head_only_filter() -> dict[str, Data]:
    """Marks requests without a body, which then find the route of theirs."""
    return {**lua(HEAD_ONLY, _MARKS), "disabled": True}
