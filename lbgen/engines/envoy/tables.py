"""Host tables of a listener -> Envoy virtual hosts, whose domains say which requests belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.routes import build_route

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.envoy.clusters import Clusters
    from lbgen.plan.model import HostPattern, HostTable, Listener, Plan, Route


def build_virtual_hosts(plan: Plan, listener: Listener, clusters: Clusters) -> list[dict[str, Data]]:
    """One virtual host per table that has rules; Envoy picks the exact one, then the longest wildcard, then `*`."""
    routes = {route.name: route for route in plan.routes}
    return [_virtual_host(table, listener, routes, clusters) for table in listener.hosts if table.rules]


def _virtual_host(
    table: HostTable, listener: Listener, routes: dict[str, Route], clusters: Clusters
) -> dict[str, Data]:
    return {
        "name": str(table.host) if table.host is not None else "any",
        "domains": _domains(table.host),
        "routes": [build_route(rule, routes[rule.route], listener, clusters) for rule in table.rules],
    }


def _domains(host: HostPattern | None) -> list[str]:
    if host is None:
        return ["*"]
    name = str(host)
    # Envoy drops the port of a Host before it looks, but not a trailing dot.
    return [name] if name.startswith("[") else [name, f"{name}."]
