"""Host tables of a listener as Envoy virtual hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.forwarded_headers import NO_HOST, build_no_host_edits
from lbgen.engines.envoy.prefix_trees import build_prefix_tree
from lbgen.engines.envoy.protobuf import typed
from lbgen.engines.envoy.routes import build_routes
from lbgen.plan.policy import PathsMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.engines.document import Data, Tagged
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import HostPattern, HostTable, Listener, Plan, Route, Rule


def build_virtual_hosts(
    plan: Plan, listener: Listener, clusters: Clusters, first: Sequence[dict[str, Data]] = ()
) -> list[dict[str, Data]]:
    """One virtual host per table with rules; Envoy picks the exact one, then the longest wildcard, then `*`.

    The Envoy routes `first` come before all others, and hosts without rules have them too.
    """
    routes = {route.name: route for route in plan.routes}
    found = [_virtual_host(table, listener, routes, clusters, first) for table in listener.hosts if table.rules]
    if first and not any(host["domains"] == ["*"] for host in found):
        found.append({"name": "any", "domains": ["*"], "routes": list(first)})
    if (edits := build_no_host_edits(listener)) and found and found[-1]["domains"] == ["*"]:
        found.append({**found[-1], "name": "no-host", "domains": [NO_HOST], **edits})
    return found


def _virtual_host(
    table: HostTable,
    listener: Listener,
    routes: Mapping[str, Route],
    clusters: Clusters,
    first: Sequence[dict[str, Data]],
) -> dict[str, Data]:
    def built(rules: Iterable[Rule]) -> list[Tagged]:
        return [one for rule in rules for one in build_routes(rule, routes[rule.route], listener, clusters)]

    found: dict[str, Data] = {
        "name": str(table.host) if table.host is not None else "any",
        "domains": _domains(table.host),
    }
    tree = None if listener.paths.mode is PathsMode.NORMALIZE else build_prefix_tree(table.rules)
    if tree is None:
        return {**found, "routes": [*first, *built(table.rules)]}
    return {**found, "matcher": _tree({key: built(rules) for key, rules in tree.items()})}


def _tree(lists: Mapping[str, list[Tagged]]) -> dict[str, Data]:
    """A matcher that picks the list of the longest key which is a prefix of the target."""
    target = typed("envoy.type.matcher.v3.HttpRequestHeaderMatchInput", {"header_name": ":path"})
    kind = "envoy.config.route.v3.RouteList"
    route_lists: dict[str, Data] = {
        key: {"action": {"name": "routes", "typed_config": typed(kind, {"routes": routes})}}
        for key, routes in lists.items()
        if routes
    }
    return {
        "matcher_tree": {
            "input": {"name": "target", "typed_config": target},
            "prefix_match_map": {"map": route_lists},
        }
    }


def _domains(host: HostPattern | None) -> list[str]:
    if host is None:
        return ["*"]
    name = str(host)
    # Envoy removes the port of a Host before the lookup, but not a trailing dot.
    return [name] if name.startswith("[") else [name, f"{name}."]
