"""What must be counted over all workers and listeners: Lua filters whose numbers are in memory that all of them share.

Requests under way have no filter of Envoy's own; tokens of a route's rate have one, but it counts for one listener.
A place is given back when Envoy writes the access log of a request, whatever became of it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.engines.envoy.lua import build_lua_filter, build_lua_per_route, load_lua
from lbgen.engines.envoy.typed_config import extension, typed
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan, Route
    from lbgen.plan.policy import Key

COUNTERS = "counters"
REQUEST_SLOT = "place"
METADATA = "lbgen.counters"


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
    code = load_lua("admission", limits=tables, rates=len(indexes), metadata=METADATA, slot=REQUEST_SLOT)
    return build_lua_filter(COUNTERS, load_lua("shared_counters") + code, disabled=True)


def build_counters_per_route(route: Route) -> dict[str, Data]:
    """What a route says to it."""
    return build_lua_per_route({"route": route.name})


def build_release_log(plan: Plan, held: str) -> dict[str, Data]:
    """An access log that writes nothing: asking whether it should gives back what a request's metadata says."""
    code = load_lua("shared_counters") + load_lua("release", rates=len(find_shared_rates(plan)))
    matcher: Data = {
        "filter": METADATA,
        "path": [{"key": held}],
        "value": {
            "string_match": {
                "custom": extension(held, "string_matcher.lua.v3.Lua", {"source_code": {"inline_string": code}})
            }
        },
    }
    return {
        "name": f"given back: {held}",
        "filter": {"metadata_filter": {"matcher": matcher, "match_if_key_not_found": False}},
        "typed_config": typed("envoy.extensions.access_loggers.file.v3.FileAccessLog", {"path": "/dev/null"}),
    }


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
