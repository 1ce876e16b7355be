"""Counters over all workers and listeners: Lua filters whose numbers are in shared memory.

Envoy has no filter for concurrency, and its rate limit filter counts per listener. A request's slot is freed when Envoy
writes its access log, however the request ended.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.engines.envoy.lua import build_lua_filter, load_lua
from lbgen.engines.envoy.protobuf import extension, typed
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
    limited = [route for route in plan.routes if route.rate_limit is not None]
    if not limited:
        return []
    on = Counter(name for x in plan.listeners for name in {rule.route for table in x.hosts for rule in table.rules})
    return [route for route in limited if on[route.name] > 1]


def find_counted_routes(plan: Plan) -> frozenset[str]:
    """Names of the routes for which the filter counts."""
    return frozenset(
        [
            *(route.name for route in find_shared_rates(plan)),
            *(r.name for r in plan.routes if r.concurrency is not None),
        ]
    )


def build_counters_filter(plan: Plan) -> dict[str, Data]:
    """The filter that admits requests, off until a route enables it."""
    indexes = {route.name: index for index, route in enumerate(find_shared_rates(plan))}
    names = find_counted_routes(plan)
    tables = "".join(_limits(route, indexes.get(route.name)) for route in plan.routes if route.name in names)
    code = load_lua("admission", limits=tables, rates=len(indexes), metadata=METADATA, slot=REQUEST_SLOT)
    return build_lua_filter(COUNTERS, load_lua("shared_counters") + code, disabled=True)


def build_release_log(plan: Plan, held: str) -> dict[str, Data]:
    """An access log that writes nothing: the evaluation of its filter frees the slot named in a request's metadata."""
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
    """A row of the Lua table of limits, whose names need no quoting. `index` is that of the shared rate."""
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
