"""Host tables of a listener as Envoy virtual hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.comments import HOSTS_NOTE, PREFIX_NOTE, TIMEOUT_NOTE, TUNNEL_NOTE
from lbgen.engines.envoy.forwarded_headers import build_host_rules
from lbgen.engines.envoy.predicates import header_input
from lbgen.engines.envoy.prefix_trees import build_prefix_tree
from lbgen.engines.envoy.protobuf import typed
from lbgen.engines.envoy.rewrites import cuts_prefix
from lbgen.engines.envoy.routes import build_routes, is_for_tunnels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.engines.document import Data, Tagged
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import HostPattern, HostTable, Listener, Plan, Route, Rule


def build_virtual_hosts(plan: Plan, listener: Listener, clusters: Clusters) -> list[dict[str, Data]]:
    """One virtual host per table with rules; Envoy picks the exact one, then the longest wildcard, then `*`."""
    routes = {route.name: route for route in plan.routes}
    return [_virtual_host(plan, table, listener, routes, clusters) for table in listener.hosts if table.rules]


def explain_hosts(hosts: Sequence[Mapping[str, Data]]) -> str:
    """A comment above these virtual hosts: why they and their routes are as they are; routes that a tree looks up
    need no comment."""
    lists = [each for host in hosts if isinstance(each := host.get("routes"), list)]
    routes = [each for one in lists for each in one if isinstance(each, dict)]
    actions = [each for x in routes if isinstance(each := x.get("route", x.get("redirect")), dict)]
    return "\n".join(
        [
            *([HOSTS_NOTE] if len(hosts) > 1 else ()),
            *([TIMEOUT_NOTE] if any("timeout" in action for action in actions) else ()),
            *([TUNNEL_NOTE] if any(is_for_tunnels(route) for route in routes) else ()),
            *([PREFIX_NOTE] if any(cuts_prefix(action) for action in actions) else ()),
        ]
    )


def _pick(routes: Sequence[Data]) -> dict[str, Data]:
    """The result of a matcher: the first of these routes that matches."""
    return {"action": {"name": "routes", "typed_config": typed("envoy.config.route.v3.RouteList", {"routes": routes})}}


def _virtual_host(
    plan: Plan, table: HostTable, listener: Listener, routes: Mapping[str, Route], clusters: Clusters
) -> dict[str, Data]:
    def built(rules: Iterable[Rule]) -> list[Tagged]:
        return [one for rule in rules for one in build_routes(plan, rule, routes[rule.route], listener, clusters)]

    found: dict[str, Data] = {
        "name": str(table.host) if table.host is not None else "any",
        "domains": _domains(table.host),
        **build_host_rules(listener),
    }
    tree = build_prefix_tree(table.rules)
    if tree is None:
        return {**found, "routes": built(table.rules)}
    return {**found, "matcher": _tree({key: built(rules) for key, rules in tree.items()})}


def _tree(lists: Mapping[str, list[Tagged]]) -> dict[str, Data]:
    """A matcher that picks the list of the longest key which is a prefix of the target."""
    route_lists: dict[str, Data] = {key: _pick(routes) for key, routes in lists.items() if routes}
    return {
        "matcher_tree": {
            "input": header_input(":path"),
            "prefix_match_map": {"map": route_lists},
        }
    }


def _domains(host: HostPattern | None) -> list[str]:
    if host is None:
        return ["*"]
    name = str(host)
    # Envoy removes the port of a Host before the lookup, but not a trailing dot.
    return [name] if name.startswith("[") else [name, f"{name}."]
