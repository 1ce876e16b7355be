"""max_per_endpoint and queues: a Lua filter that assigns each request an endpoint with a free slot, or lets it wait,
and Envoy's session filter, which sends it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.lua import build_lua_filter, load_lua
from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.engines.envoy.sticky import encode_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan, Pool

SLOTS = "places"
# Metadata keys of the slots that are freed at the end of a request.
SLOT_KEYS = ("endpoint", "queue")
_WAIT = "lbgen-wait"  # a response that takes a few milliseconds: Lua has no other way to wait
_PAUSE = "0.005s"


def build_slots_filter(pools: Iterable[Pool], rates: int) -> dict[str, Data]:
    """The filter, off until a route or share enables it; `rates` is the same for all filters that share the memory."""
    tables = "".join(_table(pool) for pool in pools)
    code = load_lua("shared_counters") + load_lua("endpoint_slots", rates=rates, pools=tables)
    return build_lua_filter(SLOTS, code, disabled=True)


def has_queues(plan: Plan) -> bool:
    """Whether requests may wait for a slot."""
    return any(pool.queue is not None for pool in plan.pools)


def build_wait_listener() -> dict[str, Data]:
    """An internal listener that answers after a pause."""
    fault: Data = extension(
        "pause",
        "filters.http.fault.v3.HTTPFault",
        {"delay": {"fixed_delay": _PAUSE, "percentage": {"numerator": 100}}, "max_active_faults": 1_000_000_000},
    )
    router: Data = extension("router", "filters.http.router.v3.Router")
    host: Data = {
        "name": "any",
        "domains": ["*"],
        "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}],
    }
    manager: Data = typed(
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        {
            "stat_prefix": _WAIT,
            "http_filters": [fault, router],
            "route_config": {"name": _WAIT, "virtual_hosts": [host]},
        },
    )
    return {
        "name": _WAIT,
        "internal_listener": {},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }


def build_wait_cluster() -> dict[str, Data]:
    """The cluster of that listener."""
    place: Data = {"endpoint": {"address": {"envoy_internal_address": {"server_listener_name": _WAIT}}}}
    return {
        "name": _WAIT,
        "type": "STATIC",
        "load_assignment": {"cluster_name": _WAIT, "endpoints": [{"lb_endpoints": [place]}]},
    }


def build_wait_extension() -> dict[str, Data]:
    """The bootstrap extension for internal listeners."""
    return extension("envoy.bootstrap.internal_listener", "bootstrap.internal_listener.v3.InternalListener")


def _table(pool: Pool) -> str:
    """The Lua table of a pool. Its names and addresses need no quoting."""
    usable = [each for each in pool.endpoints if each.weight and each.is_ip]
    rows = [(f"{pool.name} endpoint {each.authority}", encode_address(each), each.weight) for each in usable]
    endpoints = "".join(f'      {{key = "{key}", address = "{to}", weight = {weight}}},\n' for key, to, weight in rows)
    size = 0 if pool.queue is None else pool.queue.size
    timeout = 0 if pool.queue is None else pool.queue.timeout / 1000
    return (
        f'  ["{pool.name}"] = {{\n    max = {pool.max_per_endpoint}, size = {size}, timeout = {timeout},\n'
        f'    balance = "{pool.balance}", queue = "{pool.name} queue",\n    endpoints = {{\n{endpoints}    }},\n  }},\n'
    )
