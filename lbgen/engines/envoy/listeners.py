"""Listeners -> Envoy listeners: an HTTP connection manager with its filters and routes, or a TCP proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Tagged
from lbgen.engines.envoy.clusters import cluster_name, duration
from lbgen.engines.envoy.edits import content_type_filter
from lbgen.engines.envoy.forwarded import NO_HOST, early_mutations, forwarded_filters, lua
from lbgen.engines.envoy.routes import REDIRECT_HOST, edits_content_type, needs_request_host
from lbgen.engines.envoy.statuses import local_replies
from lbgen.engines.envoy.strict import strict_filter
from lbgen.engines.envoy.tables import build_virtual_hosts
from lbgen.engines.envoy.values import regex
from lbgen.plan.model import Balance, Forward, Mode, Respond

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.envoy.clusters import Clusters
    from lbgen.plan.model import Listener, Plan

# Anything but `websocket` in any case: RE2 cannot say "not".
_WORD = "websocket"
_NOT_WEBSOCKET = "|".join(
    [
        *(f"(?i:{_WORD[:n]})(?:[^{_WORD[n]}{_WORD[n].upper()}].*)?" for n in range(len(_WORD))),
        f"(?i:{_WORD}).+",
    ]
)
# A redirect shows the request's host in lower case, without its port and one trailing dot.
_REDIRECT_HOST = """\
function envoy_on_request(handle)
  local headers = handle:headers()
  local host = string.lower(headers:get(":authority"))
  if host == "%s" then
    host = "%s"
  elseif string.sub(host, 1, 1) == "[" then
    host = string.match(host, "^[^%%]]*") .. "]"
  else
    host = string.gsub(string.match(host, "^[^:]*"), "%%.$", "")
  end
  headers:replace(":authority", host)
end
"""


def build_listener(plan: Plan, listener: Listener, clusters: Clusters) -> Tagged:
    """The Envoy listener for `listener`."""
    match listener.mode:
        case Mode.L7:
            network_filter = _http(plan, listener, clusters)
        case Mode.L4:
            network_filter = _tcp(plan, listener, clusters)
        case _:
            assert_never(listener.mode)
    address: dict[str, Data] = {"address": listener.address, "port_value": listener.port}
    if listener.address == "::":
        address["ipv4_compat"] = True
    return Tagged(
        listener.field,
        {
            "name": listener.name,
            "address": {"socket_address": address},
            "filter_chains": [{"filters": [network_filter]}],
        },
    )


def _http(plan: Plan, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    routes = {route.name: route for route in plan.routes}
    rules = [(rule, routes[rule.route]) for table in listener.hosts for rule in table.rules]
    bodies = [len(route.action.body.encode()) for _, route in rules if isinstance(route.action, Respond)]
    route_config: dict[str, Data] = {
        "name": listener.name,
        "ignore_port_in_host_matching": True,
        "virtual_hosts": build_virtual_hosts(plan, listener, clusters),
    }
    if max(bodies, default=0) > 4096:
        route_config["max_direct_response_body_size_bytes"] = max(bodies)
    filters = [strict_filter(), *forwarded_filters(listener)]
    if any(needs_request_host(rule, route) for rule, route in rules):
        own = f"[{listener.address}]" if ":" in listener.address else listener.address
        filters.append({**lua(REDIRECT_HOST, _REDIRECT_HOST % (NO_HOST, own)), "disabled": True})
    if any(edits_content_type(route) for _, route in rules):
        filters.append(content_type_filter())
    filters.append(
        {
            "name": "router",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
                "suppress_envoy_headers": True,
                "dynamic_stats": False,
            },
        }
    )
    return {
        "name": "http",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3."
            "HttpConnectionManager",
            "stat_prefix": listener.name,
            "codec_type": "HTTP1",
            "http_protocol_options": {
                "accept_http_10": True,
                "default_host_for_http_10": NO_HOST,
                "allow_custom_methods": True,
                "ignore_http_11_upgrade": [regex(_NOT_WEBSOCKET)],
            },
            "common_http_protocol_options": {"idle_timeout": duration(listener.timeouts.keepalive)},
            "request_headers_timeout": duration(listener.timeouts.header),
            "stream_idle_timeout": duration(listener.timeouts.body),
            # What is left after the keep-alive time, and after an answer that ends the connection.
            "drain_timeout": "0.100s",
            "delayed_close_timeout": "0.100s",
            "upgrade_configs": [{"upgrade_type": "websocket"}],
            # The peer is the TCP peer, whatever X-Forwarded-For says: no client can send a header of this name.
            "use_remote_address": False,
            "original_ip_detection_extensions": [
                {
                    "name": "tcp-peer",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.http.original_ip_detection.custom_header.v3."
                        "CustomHeaderConfig",
                        "header_name": ":none",
                    },
                }
            ],
            "early_header_mutation_extensions": early_mutations(listener),
            "forward_client_cert_details": "ALWAYS_FORWARD_ONLY",
            "generate_request_id": False,
            "server_header_transformation": "PASS_THROUGH",
            "local_reply_config": local_replies(),
            "http_filters": filters,
            "route_config": route_config,
        },
    }


def _tcp(plan: Plan, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    found: dict[str, Data] = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": listener.name,
        "max_connect_attempts": 1,
    }
    for rule in listener.l4_rules[:1]:
        forward = plan.route(rule.route).action
        if not isinstance(forward, Forward):
            raise TypeError(f"{rule.field}: an L4 route forwards")
        targets = [target for target in forward.targets if target.weight]
        named: list[dict[str, Data]] = [
            {"name": cluster_name(target.pool, forward.timeouts.connect, clusters), "weight": target.weight}
            for target in targets
        ]
        if len(named) == 1:
            found["cluster"] = named[0]["name"]
        else:
            found["weighted_clusters"] = {"clusters": named}
        found["idle_timeout"] = duration(forward.timeouts.idle)
        if any(clusters.pools[target.pool].balance is Balance.SOURCE_HASH for target in targets):
            found["hash_policy"] = [{"source_ip": {}}]
        return Tagged(rule.field, {"name": "tcp", "typed_config": found})
    raise ValueError(f"{listener.field}: a listener without rules")
