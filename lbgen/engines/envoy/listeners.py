"""Listeners: an HTTP connection manager with its filters and routes, a TCP proxy or a UDP proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Commented, Tagged
from lbgen.engines.envoy.connections import HTTP2_LIMITS
from lbgen.engines.envoy.features import FEATURES
from lbgen.engines.envoy.l4 import build_chain_matcher, build_l4_chains, build_udp_proxy, server_name_predicate
from lbgen.engines.envoy.protobuf import arrange, duration, extension, merge
from lbgen.engines.envoy.routes import build_virtual_hosts, explain_hosts
from lbgen.engines.envoy.tls import build_listener_socket
from lbgen.engines.envoy.upstreams import BUFFER_LIMIT, BUFFER_NOTE
from lbgen.engines.envoy.view import Clusters, HttpListener
from lbgen.engines.verbatim import entries
from lbgen.plan.model import Listener, Mode, Plan, Protocol

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# Other upgrades than WebSocket that clients offer; a client that offers an unknown one gets 403.
_IGNORED_UPGRADES: list[Data] = [{"prefix": "h2c", "ignore_case": True}, {"prefix": "TLS/"}, {"prefix": "HTTP/"}]
# The order of the fields of a connection manager before others, and after them.
_FIRST = ("stat_prefix", "codec_type", "max_request_headers_kb", "http_protocol_options", "http2_protocol_options")
_LAST = ("server_header_transformation", "access_log", "upgrade_configs", "http_filters", "route_config")


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
    if inspectors := merge(each.listener(listener) for each in FEATURES if each.listener):
        found |= {**inspectors, "listener_filters_timeout": duration(listener.timeouts.header)}
    match listener.mode:
        case Mode.L7:
            found |= _l7_chains(_view(plan, version, listener, clusters))
        case Mode.L4:
            found |= build_l4_chains(plan, listener, clusters)
        case _:
            assert_never(listener.mode)
    return Tagged(listener.field, found)


def _view(plan: Plan, version: str, listener: Listener, clusters: Clusters) -> HttpListener:
    names = dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules)
    every = {route.name: route for route in plan.routes}
    routes = tuple(every[name] for name in names)
    asked = listener.asks_client or any(each.by_client(listener, routes) for each in FEATURES if each.by_client)
    asked = asked or listener.real_ip or listener.client_header is not None
    return HttpListener(plan, version, listener, routes, clusters, bool(listener.trusted_proxies) and asked)


def _l7_chains(on: HttpListener) -> dict[str, Data]:
    filters = [
        *(one for each in FEATURES if each.network_filters for one in each.network_filters(on)),
        _build_manager(on),
    ]
    tls = on.listener.tls
    if tls is None:
        return {"filter_chains": [{"filters": filters}]}
    protocols = ["h2", "http/1.1"] if on.listener.http2 else ["http/1.1"]
    chain: Data = {"name": "tls", "filters": filters, "transport_socket": build_listener_socket(tls, protocols)}
    return {
        "filter_chain_matcher": build_chain_matcher([("tls", [server_name_predicate(tls)])]),
        "filter_chains": [chain],
    }


def _build_manager(on: HttpListener) -> dict[str, Data]:
    hosts = build_virtual_hosts(on)
    router = extension(
        "router", "filters.http.router.v3.Router", {"suppress_envoy_headers": True, "dynamic_stats": False}
    )
    own: dict[str, Data] = {
        "stat_prefix": on.listener.name,
        "codec_type": "AUTO" if on.listener.http2 else "HTTP1",
        "http_protocol_options": Commented(
            "WebSocket is the one upgrade; what else clients offer is passed over.",
            {
                "accept_http_10": True,
                "allow_custom_methods": True,
                "enable_trailers": True,
                "ignore_http_11_upgrade": _IGNORED_UPGRADES,
            },
        ),
        "server_header_transformation": "PASS_THROUGH",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "route_config": {
            "name": on.listener.name,
            "ignore_port_in_host_matching": True,
            "most_specific_header_mutations_wins": Commented("What follows comes before the edits of routes.", True),
        },
    }
    if on.listener.http2:
        why = "By Envoy's guide for edge proxies: its own limits are for clients that are trusted."
        own["http2_protocol_options"] = Commented(why, HTTP2_LIMITS)
    explained = explain_hosts(hosts)
    last: dict[str, Data] = {
        "http_filters": [*entries(on.plan, "envoy", "http_filters"), router],
        "route_config": {"virtual_hosts": Commented(explained, hosts) if explained else hosts},
    }
    fields = merge([own, *(each.manager(on) for each in FEATURES if each.manager), last])
    kind = "filters.network.http_connection_manager.v3.HttpConnectionManager"
    return extension("http", kind, arrange(fields, _FIRST, _LAST))
