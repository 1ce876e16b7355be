"""Host tables of a listener -> Envoy virtual hosts, whose domains say which requests belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.prefix_trees import build_prefix_tree
from lbgen.engines.envoy.routes import build_routes
from lbgen.plan.policy import PathsMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.engines.document import Data, Tagged
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import HostPattern, HostTable, Listener, Plan, Route, Rule


def build_virtual_hosts(plan: Plan, listener: Listener, clusters: Clusters) -> list[dict[str, Data]]:
    """One virtual host per table that has rules; Envoy picks the exact one, then the longest wildcard, then `*`."""
    routes = {route.name: route for route in plan.routes}
    return [_virtual_host(table, listener, routes, clusters) for table in listener.hosts if table.rules]


def _virtual_host(
    table: HostTable, listener: Listener, routes: dict[str, Route], clusters: Clusters
) -> dict[str, Data]:
    def built(rules: Iterable[Rule]) -> list[Tagged]:
        return [one for rule in rules for one in build_routes(rule, routes[rule.route], listener, clusters)]

    found: dict[str, Data] = {
        "name": str(table.host) if table.host is not None else "any",
        "domains": _domains(table.host),
    }
    tree = None if listener.paths.mode is PathsMode.NORMALIZE else build_prefix_tree(table.rules)
    if tree is None:
        return {**found, "routes": built(table.rules)}
    return {**found, "matcher": _tree({key: built(rules) for key, rules in tree.items()})}


def prepend_route(hosts: list[dict[str, Data]], route: dict[str, Data]) -> list[dict[str, Data]]:
    """`hosts` with `route` before all others, for hosts without rules too."""
    found = [{**host, "routes": [route, *_listed(host["routes"])]} for host in hosts]
    if not any(host["domains"] == ["*"] for host in hosts):
        found.append({"name": "any", "domains": ["*"], "routes": [route]})
    return found


def _listed(data: Data) -> list[Data]:
    return list(data) if isinstance(data, list) else []


def _tree(lists: Mapping[str, list[Tagged]]) -> dict[str, Data]:
    """A matcher that takes the list of the longest key which the target begins with."""
    return {
        "matcher_tree": {
            "input": {
                "name": "target",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput",
                    "header_name": ":path",
                },
            },
            "prefix_match_map": {
                "map": {
                    key: {
                        "action": {
                            "name": "routes",
                            "typed_config": {
                                "@type": "type.googleapis.com/envoy.config.route.v3.RouteList",
                                "routes": routes,
                            },
                        }
                    }
                    for key, routes in lists.items()
                    if routes
                }
            },
        }
    }


def _domains(host: HostPattern | None) -> list[str]:
    if host is None:
        return ["*"]
    name = str(host)
    # Envoy drops the port of a Host before it looks, but not a trailing dot.
    return [name] if name.startswith("[") else [name, f"{name}."]
