"""Host tables of a listener as Envoy virtual hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.comments import HOSTS_NOTE, PREFIX_NOTE, TIMEOUT_NOTE, TUNNEL_NOTE
from lbgen.engines.envoy.conditional_filters import ENABLED
from lbgen.engines.envoy.forwarded_headers import NO_HOST, build_no_host_edits
from lbgen.engines.envoy.prefix_trees import build_prefix_tree
from lbgen.engines.envoy.protobuf import typed
from lbgen.engines.envoy.rewrites import cuts_prefix
from lbgen.engines.envoy.routes import build_routes, is_for_tunnels
from lbgen.plan.policy import PathsMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.engines.document import Data, Tagged
    from lbgen.engines.envoy.predicates import Predicate
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import HostPattern, HostTable, Listener, Plan, Route, Rule

# What a route adds to responses made by Envoy too, or other filters do for it.
_ANSWERS = frozenset({"response_headers_to_add", "response_headers_to_remove", "typed_per_filter_config"})


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


def refuse_others(hosts: Sequence[dict[str, Data]], well_formed: Predicate, name: str) -> list[dict[str, Data]] | None:
    """`hosts` with a further route, for requests that are not `well_formed`, which enables the filter `name`.

    A filter costs 3,000 instructions per request even where it is skipped. None where this would change an answer,
    as the further route edits no responses, or would repeat the test for each of many hosts."""
    found = []
    for host in hosts:
        routes = host.get("routes")
        if host["domains"] not in (["*"], [NO_HOST]) or not isinstance(routes, list):
            return None
        if not all(isinstance(route, dict) and "route" in route and not _ANSWERS & route.keys() for route in routes):
            return None
        kind = "envoy.config.route.v3.Route"
        refused: dict[str, Data] = {"match": {"prefix": ""}, "direct_response": {"status": 400}}
        matchers: Data = [{"predicate": well_formed, "on_match": _pick(routes)}]
        last = typed(kind, {**refused, "typed_per_filter_config": {name: ENABLED}})
        others: Data = {"action": {"name": name, "typed_config": last}}
        matcher: Data = {"matcher_list": {"matchers": matchers}, "on_no_match": others}
        found.append({**{key: value for key, value in host.items() if key != "routes"}, "matcher": matcher})
    return found or None


def _pick(routes: Sequence[Data]) -> dict[str, Data]:
    """The result of a matcher: the first of these routes that matches."""
    return {"action": {"name": "routes", "typed_config": typed("envoy.config.route.v3.RouteList", {"routes": routes})}}


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
    route_lists: dict[str, Data] = {key: _pick(routes) for key, routes in lists.items() if routes}
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
