"""What must be counted over all workers and listeners: Lua filters whose numbers are in memory that all of them share.

Requests under way have no filter of Envoy's own; tokens of a route's rate have one, but it counts for one listener.
A place is given back when Envoy writes the access log of a request, whatever became of it.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.envoy.forwarded_headers import build_lua_filter
from lbgen.plan.policy import KeyKind
from lbgen.resources import folder

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan, Route
    from lbgen.plan.policy import Key

COUNTERS = "counters"
REQUEST_SLOT = "place"
METADATA = "lbgen.counters"
_TYPE = "type.googleapis.com/envoy"
_ASK = """
local limits = {
%s}
local state = shared(%d)

local function key_of(handle, kind)
  if kind == "route" then return "" end
  if kind == "client" then
    return (string.gsub(handle:streamInfo():downstreamRemoteAddress(), ":%%d+$", ""))
  end
  return handle:headers():get(string.sub(kind, #"header " + 1))
end

local function refuse(handle) handle:respond({[":status"] = "429"}, "Too Many Requests\\n") end

function envoy_on_request(handle)
  local name = handle:filterContext():get("route")
  local limit = limits[name or ""]
  if limit == nil then return end
  local place
  if limit.max ~= nil then
    local key = key_of(handle, limit.max_key)
    if key ~= nil then
      place = name .. "\\n" .. key
      if not enter(state, place, limit.max) then return refuse(handle) end
      handle:streamInfo():dynamicMetadata():set("%s", "%s", place)
    end
  end
  if limit.burst ~= nil then
    local key = key_of(handle, limit.rate_key)
    if key ~= nil and not take(state, limit.index, key, limit.rate, limit.burst) then return refuse(handle) end
  end
end
"""
_DONE = """
local state = shared(%d)

function envoy_match(place)
  leave(state, place)
  return false
end
"""


def find_shared_rates(plan: Plan) -> list[Route]:
    """The routes whose rate is counted over several listeners."""
    on = Counter(name for x in plan.listeners for name in {rule.route for table in x.hosts for rule in table.rules})
    return [route for route in plan.routes if route.rate_limit is not None and on[route.name] > 1]


def find_counted_routes(plan: Plan) -> frozenset[str]:
    """Names of the routes that this filter counts for."""
    return frozenset(
        [
            *(route.name for route in find_shared_rates(plan)),
            *(r.name for r in plan.routes if r.concurrency is not None),
        ]
    )


def build_counters_filter(plan: Plan) -> dict[str, Data]:
    """The filter that admits requests, off until a route switches it on."""
    indexes = {route.name: index for index, route in enumerate(find_shared_rates(plan))}
    names = find_counted_routes(plan)
    tables = "".join(_limits(route, indexes.get(route.name)) for route in plan.routes if route.name in names)
    return {
        **build_lua_filter(COUNTERS, load_library() + _ASK % (tables, len(indexes), METADATA, REQUEST_SLOT)),
        "disabled": True,
    }


def build_counters_per_route(route: Route) -> dict[str, Data]:
    """What a route says to it."""
    return {
        "@type": f"{_TYPE}.extensions.filters.http.lua.v3.LuaPerRoute",
        "filter_context": {"route": route.name},
    }


def build_release_log(plan: Plan, held: str) -> dict[str, Data]:
    """An access log that writes nothing: asking whether it should gives back what a request's metadata says."""
    matcher: Data = {
        "filter": METADATA,
        "path": [{"key": held}],
        "value": {
            "string_match": {
                "custom": {
                    "name": held,
                    "typed_config": {
                        "@type": f"{_TYPE}.extensions.string_matcher.lua.v3.Lua",
                        "source_code": {"inline_string": load_library() + _DONE % len(find_shared_rates(plan))},
                    },
                }
            }
        },
    }
    return {
        "name": f"given back: {held}",
        "filter": {"metadata_filter": {"matcher": matcher, "match_if_key_not_found": False}},
        "typed_config": {
            "@type": f"{_TYPE}.extensions.access_loggers.file.v3.FileAccessLog",
            "path": "/dev/null",
        },
    }


@cache
def load_library() -> str:
    """The functions `shared`, `enter`, `leave`, `take` and `seconds` in Lua."""
    return (folder("templates") / "envoy" / "shared_counters.lua").read_text(encoding="utf-8")


def _limits(route: Route, index: int | None) -> str:
    """A line of the table of limits. A route's name and header names are plain words. `index`: of the shared rates."""
    found = []
    if route.concurrency is not None:
        found.append(f'max = {route.concurrency.max}, max_key = "{_key(route.concurrency.key)}"')
    if index is not None and route.rate_limit is not None:
        limit = route.rate_limit
        found.append(f'index = {index}, rate_key = "{_key(limit.key)}"')
        found.append(f"rate = {limit.amount} / {limit.seconds}, burst = {limit.burst}")
    return f'  ["{route.name}"] = {{{", ".join(found)}}},\n'


def _key(key: Key) -> str:
    if key.kind is KeyKind.HEADER:
        return f"header {key.name}"
    return "client" if key.kind is KeyKind.CLIENT_IP else "route"
