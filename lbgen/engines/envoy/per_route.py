"""Policies of routes: the filters of a listener for them, and the configuration by which each route enables its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.compression import build_compression_filter, compression_filter_name
from lbgen.engines.envoy.cors import CORS, build_cors_config, build_cors_filter
from lbgen.engines.envoy.limits import (
    ACCESS,
    BUFFER,
    RATE,
    body_size_filter_name,
    build_access_filter,
    build_access_rules,
    build_body_size_filter,
    build_buffer_filter,
    build_client_key_filters,
    build_rate_filter,
    build_rate_metadata,
)
from lbgen.engines.envoy.predicates import has_mapped_addresses
from lbgen.engines.envoy.protobuf import typed
from lbgen.engines.envoy.sticky import FILTER, SESSION, build_session_filter, build_sticky_config, build_sticky_filter
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import Listener, Route

_ENABLED = typed("envoy.config.route.v3.FilterConfig", {"config": {}})  # of a route that enables a filter


def build_policy_filters(
    version: str, listener: Listener, routes: Iterable[Route], clusters: Clusters
) -> list[dict[str, Data]]:
    """The filters for policies of `routes`, in the order in which they see a request, all off."""
    found = {route.name: route for route in routes}.values()
    filters: list[dict[str, Data]] = []
    if any(route.access is not None for route in found):
        filters.append(build_access_filter(ACCESS, None))
    if any(route.cors is not None for route in found):
        filters.append(build_cors_filter())
    if limited := [route for route in found if route.rate_limit is not None]:
        filters += [*build_client_key_filters(limited, listener), build_rate_filter(limited, listener)]
    filters += [
        build_body_size_filter(size, version)
        for size in sorted({route.max_body for route in found if route.max_body is not None})
    ]
    if any(isinstance(route.action, Forward) and route.action.buffering.request for route in found):
        filters.append(build_buffer_filter())
    kinds = {
        compression_filter_name(route.compression): route.compression
        for route in found
        if route.compression is not None
    }
    filters += [build_compression_filter(kind, version) for kind in kinds.values()]
    pools = {pool.name: pool for route in found for pool in clusters.target_pools(route)}.values()
    if sticky := [pool for pool in pools if pool.sticky is not None]:
        filters += [build_sticky_filter(sticky), build_session_filter()]
    return filters


def build_per_route(route: Route, listener: Listener, clusters: Clusters, *, tunnel: bool) -> dict[str, Data]:
    """The filter configurations of `route`, by filter name. A `tunnel` has a body without end."""
    found: dict[str, Data] = build_access_config(route, listener)
    if route.cors is not None:
        found[CORS] = build_cors_config(route.cors)
    if route.rate_limit is not None:
        found[RATE] = _ENABLED
    if route.max_body is not None:
        found[body_size_filter_name(route.max_body)] = _ENABLED
    if not isinstance(route.action, Forward):
        return found
    if route.action.buffering.request and not tunnel:
        found[BUFFER] = _ENABLED
    if route.compression is not None:
        found[compression_filter_name(route.compression)] = _ENABLED
    if sticky := [pool for pool in clusters.target_pools(route) if pool.sticky is not None]:
        found[FILTER] = build_sticky_config(pool.name for pool in sticky)
        found[SESSION] = _ENABLED
    return found


def build_access_config(route: Route, listener: Listener) -> dict[str, Data]:
    """The access list, which applies to preflights too."""
    if route.access is None:
        return {}
    rules = build_access_rules(route.access, mapped=has_mapped_addresses(listener))
    return {ACCESS: typed("envoy.extensions.filters.http.rbac.v3.RBACPerRoute", {"rbac": rules})}


def build_metadata(route: Route) -> dict[str, Data]:
    """The metadata field of an Envoy route; empty when no filter reads it."""
    return {} if route.rate_limit is None else {"metadata": build_rate_metadata(route)}
