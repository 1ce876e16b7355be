"""Host tables of a listener as Envoy virtual hosts, and rules as Envoy routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.document import Tagged
from lbgen.engines.envoy.features import FEATURES
from lbgen.engines.envoy.headers import build_request_edits
from lbgen.engines.envoy.matching import build_match
from lbgen.engines.envoy.predicates import header_input
from lbgen.engines.envoy.prefix_trees import build_prefix_tree
from lbgen.engines.envoy.protobuf import arrange, merge, typed
from lbgen.engines.envoy.rewrites import cuts_prefix
from lbgen.engines.envoy.view import HttpListener, HttpRoute, cluster_options
from lbgen.plan.model import Forward, HostPattern, HostTable, Route, Rule

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_HOSTS_NOTE = "Envoy searches the most specific host alone, so each host repeats the routes of wider ones."
_TIMEOUT_NOTE = "timeout: 0s, as it would include the response body; the idle times limit silence."
_TUNNEL_NOTE = "Of two routes of one name, the first is for WebSocket, which only idle_timeout ends."
_PREFIX_NOTE = "A prefix becomes / by a regex: prefix_rewrite would leave // in front of what follows."
_IS_TUNNEL: dict[str, Data] = {"name": "upgrade", "string_match": {"exact": "websocket", "ignore_case": True}}
# The order of the fields of a route before others, and after them.
_FIRST = ("name", "match", "metadata", "route", "redirect", "direct_response")
_LAST = (
    *("request_headers_to_remove", "request_headers_to_add", "request_body_buffer_limit"),
    *("response_headers_to_remove", "response_headers_to_add", "typed_per_filter_config"),
)
_ROUTES = [each.route for each in FEATURES if each.route]
_SPLITS = [each.split for each in FEATURES if each.split]
_SPARING = [each.spares_tunnels for each in FEATURES if each.spares_tunnels]


def build_virtual_hosts(on: HttpListener) -> list[dict[str, Data]]:
    """One virtual host per table with rules; Envoy picks the exact one, then the longest wildcard, then `*`."""
    routes = {route.name: route for route in on.routes}
    return [_virtual_host(on, table, routes) for table in on.listener.hosts if table.rules]


def explain_hosts(hosts: Sequence[Mapping[str, Data]]) -> str:
    """A comment above these virtual hosts: why they and their routes are as they are; routes that a tree looks up
    need no comment."""
    lists = [each for host in hosts if isinstance(each := host.get("routes"), list)]
    routes = [each for one in lists for each in one if isinstance(each, dict)]
    actions = [each for x in routes if isinstance(each := x.get("route", x.get("redirect")), dict)]
    return "\n".join(
        [
            *([_HOSTS_NOTE] if len(hosts) > 1 else ()),
            *([_TIMEOUT_NOTE] if any("timeout" in action for action in actions) else ()),
            *([_TUNNEL_NOTE] if any(_is_for_tunnels(route) for route in routes) else ()),
            *([_PREFIX_NOTE] if any(cuts_prefix(action) for action in actions) else ()),
        ]
    )


def _is_for_tunnels(route: Mapping[str, Data]) -> bool:
    match = route["match"]
    headers = match.get("headers", ()) if isinstance(match, dict) else ()
    return isinstance(headers, list) and _IS_TUNNEL in headers


def _virtual_host(on: HttpListener, table: HostTable, routes: Mapping[str, Route]) -> dict[str, Data]:
    def built(rules: Iterable[Rule]) -> list[Tagged]:
        return [one for rule in rules for one in _build_routes(on, rule, routes[rule.route])]

    own: dict[str, Data] = {
        "name": str(table.host) if table.host is not None else "any",
        "domains": _domains(table.host),
    }
    found = merge([own, *(each.virtual_host(on) for each in FEATURES if each.virtual_host)])
    tree = build_prefix_tree(table.rules)
    if tree is None:
        return {**found, "routes": built(table.rules)}
    return {**found, "matcher": _tree({key: built(rules) for key, rules in tree.items()})}


def _pick(routes: Sequence[Data]) -> dict[str, Data]:
    """The result of a matcher: the first of these routes that matches."""
    return {"action": {"name": "routes", "typed_config": typed("envoy.config.route.v3.RouteList", {"routes": routes})}}


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


def _build_routes(on: HttpListener, rule: Rule, route: Route) -> list[Tagged]:
    """The Envoy routes of `rule`, in order: one for each combination of method, tunnel and cookie that differs."""
    match: Data = build_match(rule.match, on.listener)
    forward = route.action if isinstance(route.action, Forward) else None
    return [Tagged(rule.field, _build_route(at, match)) for at in _split(HttpRoute(on, rule, route, forward))]


def _split(whole: HttpRoute) -> Iterator[HttpRoute]:
    parts = [whole]
    for split in _SPLITS:
        parts = [part for at in parts for part in split(at)]
    for at in parts:
        if at.forward is not None and any(spares(at.forward) for spares in _SPARING):
            yield replace(at, headers=(*at.headers, _IS_TUNNEL), tunnel=True)
        yield at


def _build_route(at: HttpRoute, match: Data) -> dict[str, Data]:
    conditions = {"headers": list(at.headers), "cookies": list(at.cookies)}
    more: dict[str, Data] = {"match": {key: value for key, value in conditions.items() if value}}
    own = {"match": match} if at.forward is None else {"match": match, **_forward(at, at.forward)}
    return arrange(merge([own, *[build(at) for build in _ROUTES], more]), _FIRST, _LAST)


def _forward(at: HttpRoute, forward: Forward) -> dict[str, Data]:
    """A route action, and the request edits, which belong to each target of a split."""
    options = cluster_options(forward)
    targets = [target for target in forward.targets if target.weight]
    # The route's own timeout would include the response body.
    if len(targets) == 1:
        edits = build_request_edits(at, at.route.request_headers, targets[0].request_headers)
        return {"route": {"cluster": at.on.clusters.name(targets[0].pool, options), "timeout": "0s"}, **edits}
    clusters: Data = [
        Tagged(
            target.field,
            {
                "name": at.on.clusters.name(target.pool, options),
                "weight": target.weight,
                **build_request_edits(at, at.route.request_headers, target.request_headers),
            },
        )
        for target in targets
    ]
    return {"route": {"weighted_clusters": {"clusters": clusters}, "timeout": "0s"}}
