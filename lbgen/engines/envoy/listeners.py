"""Listeners: an HTTP connection manager with its filters and routes, a TCP proxy or a UDP proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Commented, Tagged, comment_on
from lbgen.engines.envoy.access_log import build_access_log, build_snapshot_filter
from lbgen.engines.envoy.comments import BUFFER_NOTE, NOTES, ROUTE_NOTES, explain_filter
from lbgen.engines.envoy.filter_chains import build_chain_matcher, server_name_predicate
from lbgen.engines.envoy.forwarded_headers import (
    PEER_ADDRESS,
    build_client_detection,
    build_header_rules,
    build_untrusted_filters,
    matches_trusted_peer,
)
from lbgen.engines.envoy.l4 import build_l4_chains
from lbgen.engines.envoy.limits import build_access_filter
from lbgen.engines.envoy.paths import build_path_fields, build_refusal_filter, build_size_filters
from lbgen.engines.envoy.per_route import build_policy_filters
from lbgen.engines.envoy.predicates import has_mapped_addresses
from lbgen.engines.envoy.protobuf import duration, extension
from lbgen.engines.envoy.timeouts import build_client_timeouts
from lbgen.engines.envoy.tls import build_listener_socket, build_tls_inspector
from lbgen.engines.envoy.udp import build_udp_proxy
from lbgen.engines.envoy.upstreams import BUFFER_LIMIT, HTTP2_LIMITS
from lbgen.engines.envoy.virtual_hosts import build_virtual_hosts, explain_hosts
from lbgen.engines.verbatim import entries
from lbgen.plan.model import Forward, Mode, PoolProtocol, Protocol, Respond

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import Listener, Plan, Route
    from lbgen.plan.policy import Limits

# Other upgrades than WebSocket that clients offer; a client that offers an unknown one gets 403.
_IGNORED_UPGRADES: list[Data] = [{"prefix": "h2c", "ignore_case": True}, {"prefix": "TLS/"}, {"prefix": "HTTP/"}]


def build_listener(plan: Plan, version: str, listener: Listener, clusters: Clusters) -> Tagged:
    """The Envoy listener for `listener`."""
    address: dict[str, Data] = {"address": listener.address, "port_value": listener.port}
    if listener.address == "::":
        address["ipv4_compat"] = True
    found: dict[str, Data] = {"name": listener.name, "address": {"socket_address": address}}
    if listener.protocol is Protocol.UDP:
        address["protocol"] = "UDP"
        return Tagged(listener.field, {**found, **build_udp_proxy(plan, listener, clusters)})
    found["per_connection_buffer_limit_bytes"] = Commented(BUFFER_NOTE, BUFFER_LIMIT)
    inspectors = [
        *([_proxy_header()] if listener.proxy_protocol else ()),
        *([build_tls_inspector()] if listener.tls else ()),
    ]
    if inspectors:
        found["listener_filters"] = inspectors
        found["listener_filters_timeout"] = duration(listener.timeouts.header)
    match listener.mode:
        case Mode.L7:
            found |= _l7_chains(plan, version, listener, clusters)
        case Mode.L4:
            found |= build_l4_chains(plan, listener, clusters)
        case _:
            assert_never(listener.mode)
    return Tagged(listener.field, found)


def _proxy_header() -> dict[str, Data]:
    return extension("envoy.filters.listener.proxy_protocol", "filters.listener.proxy_protocol.v3.ProxyProtocol")


def _l7_chains(plan: Plan, version: str, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    filters = [*_save_peer(plan, listener), _http(plan, version, listener, clusters)]
    if listener.tls is None:
        return {"filter_chains": [{"filters": filters}]}
    protocols = ["h2", "http/1.1"] if listener.http2 else ["http/1.1"]
    chain: Data = {
        "name": "tls",
        "filters": filters,
        "transport_socket": build_listener_socket(listener.tls, protocols),
    }
    return {
        "filter_chain_matcher": build_chain_matcher([("tls", [server_name_predicate(listener.tls)])]),
        "filter_chains": [chain],
    }


def _save_peer(plan: Plan, listener: Listener) -> list[dict[str, Data]]:
    """A network filter that saves the peer of a connection, also from its PROXY header, for rules that ask for a
    trusted one."""
    if not matches_trusted_peer(plan, listener):
        return []
    peer: Data = {"text_format_source": {"inline_string": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}}
    state: Data = {"object_key": PEER_ADDRESS, "factory_key": "envoy.network.ip", "format_string": peer}
    return [extension("peer", "filters.network.set_filter_state.v3.Config", {"on_new_connection": [state]})]


def _http(plan: Plan, version: str, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    routes = {route.name: route for route in plan.routes}
    names = dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules)
    used = [routes[name] for name in names]
    rewritten = sorted(set().union(*(_list_rewrites(route) for route in used))) if listener.logs else []
    pools = [pool for route in used for pool in clusters.target_pools(route)]
    filters = [
        *([build_snapshot_filter(rewritten)] if rewritten else ()),
        build_refusal_filter(listener, hides_method=any(pool.protocol is not PoolProtocol.HTTP1 for pool in pools)),
        *build_untrusted_filters(plan, listener),
        *build_size_filters(listener),
    ]
    if listener.access is not None:
        mapped = has_mapped_addresses(listener)
        filters.append(build_access_filter("listener-access", listener.access, mapped=mapped))
    filters += build_policy_filters(version, listener, used, clusters)
    filters += entries(plan, "envoy", "http_filters")
    filters.append(
        extension("router", "filters.http.router.v3.Router", {"suppress_envoy_headers": True, "dynamic_stats": False})
    )
    hosts = build_virtual_hosts(plan, listener, clusters)
    route_config: dict[str, Data] = {
        "name": listener.name,
        "ignore_port_in_host_matching": True,
        "most_specific_header_mutations_wins": True,
        **build_header_rules(plan, listener),
    }
    bodies = [len(route.action.body.encode()) for route in used if isinstance(route.action, Respond)]
    if max(bodies, default=0) > 4096:
        route_config["max_direct_response_body_size_bytes"] = max(bodies)
    route_config["virtual_hosts"] = hosts
    explained = explain_hosts(hosts)
    logs = build_access_log(listener, rewritten) if listener.logs else []
    fields: dict[str, Data] = {
        "stat_prefix": listener.name,
        "codec_type": "AUTO" if listener.http2 else "HTTP1",
        **_limits(listener.limits),
        "http_protocol_options": {
            "accept_http_10": True,
            "allow_custom_methods": True,
            "enable_trailers": True,
            "ignore_http_11_upgrade": _IGNORED_UPGRADES,
        },
        **({"http2_protocol_options": HTTP2_LIMITS} if listener.http2 else {}),
        **build_client_timeouts(listener, used),
        **build_path_fields(listener.paths),
        **build_client_detection(plan, listener),
        "server_header_transformation": "PASS_THROUGH",
        **({"access_log": logs} if logs else {}),
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "http_filters": [explain_filter(each) for each in filters],
        "route_config": comment_on(
            route_config, {**ROUTE_NOTES, **({"virtual_hosts": explained} if explained else {})}
        ),
    }
    kind = "filters.network.http_connection_manager.v3.HttpConnectionManager"
    return extension("http", kind, comment_on(fields, NOTES))


def _limits(limits: Limits) -> dict[str, Data]:
    """Envoy counts whole KiB, and includes the request line."""
    if limits.headers is None:
        return {}
    return {"max_request_headers_kb": -(-limits.headers // 1024)}


def _list_rewrites(route: Route) -> set[str]:
    """What of the route's requests changes before they are logged: `host`, `path`."""
    rewrite = route.action.rewrite if isinstance(route.action, Forward) else None
    if rewrite is None:
        return set()
    changed = {"host"} if rewrite.host is not None else set()
    return changed | {"path"} if rewrite.path is not None or rewrite.prefix is not None else changed
