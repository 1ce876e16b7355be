"""Policies of routes -> the filters a listener needs for them, and what each route says to switch its own on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.bodies import BUFFER, buffer_filter, compression_filter, compression_name
from lbgen.engines.envoy.endpoint_slots import PLACES, bounded_pools, other_share, places_filter
from lbgen.engines.envoy.limits import (
    ACCESS,
    RATE,
    SWITCHED_ON,
    access_filter,
    access_switch,
    body_filter,
    body_name,
    rate_filter,
    rate_metadata,
)
from lbgen.engines.envoy.shared_counters import COUNTERS, counters_filter, counters_switch
from lbgen.engines.envoy.sticky import FILTER, SESSION, session_filter, sticky_filter, sticky_pools, sticky_switch
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import Plan, Route


def policy_filters(plan: Plan, routes: Iterable[Route], clusters: Clusters) -> list[dict[str, Data]]:
    """The filters for policies of `routes`, in the order in which they ask a request, all off."""
    found = {route.name: route for route in routes}.values()
    filters: list[dict[str, Data]] = []
    if any(route.access is not None for route in found):
        filters.append(access_filter(ACCESS, None))
    if limited := [r for r in found if r.rate_limit is not None and r.name not in clusters.shared_rates]:
        filters.append(rate_filter(limited))
    if any(route.name in clusters.counted for route in found):
        filters.append(counters_filter(plan))
    filters += [body_filter(size) for size in sorted({route.max_body for route in found if route.max_body is not None})]
    if any(isinstance(route.action, Forward) and route.action.buffering.request for route in found):
        filters.append(buffer_filter())
    kinds = {compression_name(route.compression): route.compression for route in found if route.compression is not None}
    filters += [compression_filter(kind) for kind in kinds.values()]
    sticky = {pool.name: pool for route in found for pool in sticky_pools(route, clusters.pools)}
    bounded = {pool.name: pool for route in found for pool in bounded_pools(route, clusters.pools)}
    if sticky or bounded:
        # It also takes off what the session filter says where a target was not in its normal form.
        filters.append(sticky_filter(sticky.values()))
    if bounded:
        filters.append(places_filter(bounded.values(), len(clusters.shared_rates)))
    return [*filters, session_filter()] if sticky or bounded else filters


def switches(route: Route, clusters: Clusters, *, tunnel: bool) -> dict[str, Data]:
    """What `route` says to filters, by their names. The body of a `tunnel` never ends."""
    found: dict[str, Data] = admission(route)
    if route.name in clusters.counted:
        found[COUNTERS] = counters_switch(route)
    if route.rate_limit is not None and route.name not in clusters.shared_rates:
        found[RATE] = SWITCHED_ON
    if route.max_body is not None:
        found[body_name(route.max_body)] = SWITCHED_ON
    if not isinstance(route.action, Forward):
        return found
    if route.action.buffering.request and not tunnel:
        found[BUFFER] = SWITCHED_ON
    if route.compression is not None:
        found[compression_name(route.compression)] = SWITCHED_ON
    if sticky := sticky_pools(route, clusters.pools):
        found[FILTER] = sticky_switch(sticky)
    bounded = bounded_pools(route, clusters.pools)
    if bounded and not sticky:
        found[PLACES] = other_share()
    if sticky or bounded:
        found[SESSION] = SWITCHED_ON
    return found


def admission(route: Route) -> dict[str, Data]:
    """What counts for preflights too: who may come in at all."""
    return {} if route.access is None else {ACCESS: access_switch(route.access)}


def metadata(route: Route) -> dict[str, Data]:
    """The field of an Envoy route by which filters know it; empty when none asks."""
    return {} if route.rate_limit is None else {"metadata": rate_metadata(route)}
