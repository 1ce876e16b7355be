"""Listeners: an HTTP connection manager with its filters and routes, a TCP proxy or a UDP proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Tagged, comment_on
from lbgen.engines.envoy.access_log import build_access_log, build_snapshot_filter
from lbgen.engines.envoy.balancing import PEER_STATE
from lbgen.engines.envoy.comments import (
    CODING_NOTE,
    HANDSHAKE_NOTE,
    NOTES,
    PATH_NOTES,
    PEER_NOTE,
    PROTO_NOTE,
    ROUTE_NOTES,
    UNDERSCORES_NOTE,
    explain_filter,
)
from lbgen.engines.envoy.conditional_filters import skip_where
from lbgen.engines.envoy.connection_options import build_handshake_filter, build_upstream_filters
from lbgen.engines.envoy.endpoint_slots import SLOT_KEYS
from lbgen.engines.envoy.filter_chains import build_chain_matcher, server_name_predicate
from lbgen.engines.envoy.forwarded_headers import (
    NO_HEADER,
    NO_HOST,
    PEER_ADDRESS,
    TRANSFER_CODING,
    build_early_mutations,
    build_forwarded_filters,
    generates_request_id,
    list_late_removals,
    matches_trusted_peer,
    saves_proto,
)
from lbgen.engines.envoy.headers import build_content_type_filter, header_option
from lbgen.engines.envoy.l4 import build_l4_chains
from lbgen.engines.envoy.limits import RATE, build_access_filter, hashes_saved_peer, needs_client_address, saves_peer
from lbgen.engines.envoy.local_replies import ReplyCauses, build_local_replies
from lbgen.engines.envoy.lua import build_lua_filter, load_lua
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.paths import (
    build_above_root_filter,
    build_non_normal_route,
    build_normalize_filter,
    build_path_fields,
    build_path_filter,
    build_refusal,
    build_target_limit_filter,
)
from lbgen.engines.envoy.per_route import build_policy_filters
from lbgen.engines.envoy.predicates import cidrs, has_mapped_addresses
from lbgen.engines.envoy.protobuf import duration, extension
from lbgen.engines.envoy.rewrites import has_request_host_redirect
from lbgen.engines.envoy.routes import REDIRECT_HOST, has_late_edits
from lbgen.engines.envoy.shared_counters import REQUEST_SLOT, build_release_log
from lbgen.engines.envoy.timeouts import (
    build_client_timeouts,
    build_head_only_filter,
    compute_close_timeout,
    needs_head_only_filter,
)
from lbgen.engines.envoy.tls import build_listener_socket, build_tls_inspector
from lbgen.engines.envoy.udp import build_udp_proxy
from lbgen.engines.envoy.virtual_hosts import build_virtual_hosts, explain_hosts, refuse_others
from lbgen.engines.verbatim import entries
from lbgen.plan.model import Forward, Mode, Protocol, Respond
from lbgen.plan.policy import PathsMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import Listener, Plan, Route, Rule
    from lbgen.plan.policy import Limits

_DRAIN = 100  # ms in which an idle connection drains before Envoy closes it
# Anything but `websocket` in any case; RE2 has no negation, and its `.` matches no byte that is not UTF-8.
_WORD, _BYTE = "websocket", r"\C"
_NOT_WEBSOCKET = "|".join(
    [
        f"(?i){_BYTE}{{0,{len(_WORD) - 1}}}",
        f"{_BYTE}{{{len(_WORD) + 1},}}",
        *(f"{_BYTE * n}[^{x}]{_BYTE}*" for n, x in enumerate(_WORD)),
    ]
)


def build_listener(plan: Plan, version: str, listener: Listener, clusters: Clusters) -> Tagged:
    """The Envoy listener for `listener`."""
    address: dict[str, Data] = {"address": listener.address, "port_value": listener.port}
    if listener.address == "::":
        address["ipv4_compat"] = True
    found: dict[str, Data] = {"name": listener.name, "address": {"socket_address": address}}
    if listener.protocol is Protocol.UDP:
        address["protocol"] = "UDP"
        return Tagged(listener.field, {**found, **build_udp_proxy(plan, listener, clusters)})
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
    saved = [_save_peer(plan, listener)] if saves_peer(plan, listener) or matches_trusted_peer(listener) else []
    filters = [*saved, _http(plan, version, listener, clusters)]
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


def _save_peer(plan: Plan, listener: Listener) -> dict[str, Data]:
    """A network filter that saves the peer of a connection, also from its PROXY header, for all its requests."""
    kinds = {PEER_ADDRESS: "envoy.network.ip"} if matches_trusted_peer(listener) else {}
    if saves_peer(plan, listener):
        kinds[PEER_STATE] = "envoy.hashable_string" if hashes_saved_peer(plan, listener) else "envoy.string"
    peer: Data = {"text_format_source": {"inline_string": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}}
    states: list[Data] = [{"object_key": x, "factory_key": kind, "format_string": peer} for x, kind in kinds.items()]
    return extension("peer", "filters.network.set_filter_state.v3.Config", {"on_new_connection": states})


def _http(plan: Plan, version: str, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    routes = {route.name: route for route in plan.routes}
    rules = [(rule, routes[rule.route]) for table in listener.hosts for rule in table.rules]
    bodies = [len(route.action.body.encode()) for _, route in rules if isinstance(route.action, Respond)]
    used = [route for _, route in rules]
    close = compute_close_timeout(listener.timeouts, used)
    client = needs_client_address(plan, listener)
    normal = listener.paths.mode is PathsMode.NORMALIZE
    kept = listener.guarantees
    # With use_remote_address Envoy answers 403 to `GET https://...` on a connection without TLS.
    remote_address = not client and not kept.paths
    forwards = any(isinstance(route.action, Forward) for route in used)
    rewritten = {"path"} if normal else set()
    rewritten = rewritten.union(*(_rewrites(rule, route) for rule, route in rules))
    saved = sorted(rewritten) if listener.logs else []
    head_only = needs_head_only_filter(used, listener.timeouts.body, clusters)
    coding = head_only or kept.framing
    filters = [*([build_snapshot_filter(saved)] if saved else ()), *([build_normalize_filter()] if normal else ())]
    filters += build_forwarded_filters(listener)  # first, so that the log has the X-Request-Id of refused requests
    refusal = build_refusal(listener.paths, kept)
    if refusal is not None:
        filters.append(skip_where(*refusal))
    if not kept.paths:
        filters.append(build_path_filter())
    if listener.limits.target is not None:
        filters.append(build_target_limit_filter(listener.limits.target))
    if listener.paths.mode is PathsMode.VERBATIM:
        filters.append(build_above_root_filter())
    before_handshake = len(filters)
    if head_only:
        filters.append(build_head_only_filter())
    if listener.access is not None:
        filters.append(build_access_filter("listener-access", listener.access, mapped=has_mapped_addresses(listener)))
    filters += build_policy_filters(plan, version, listener, used, clusters)
    if any(has_request_host_redirect(rule, route) for rule, route in rules):
        own = f"[{listener.address}]" if ":" in listener.address else listener.address
        filters.append(
            build_lua_filter(REDIRECT_HOST, load_lua("redirect_host", no_host=NO_HOST, own=own), disabled=True)
        )
    if any(has_late_edits(route) for _, route in rules):
        filters.append(build_content_type_filter())
    filters += entries(plan, "envoy", "http_filters")
    hosts = build_virtual_hosts(plan, listener, clusters, [build_non_normal_route(filters)] if normal else [])
    explained = explain_hosts(hosts)
    if refusal is not None and filters[-1]["name"] == "malformed":  # no policy could answer first
        well_formed, deny = refusal
        if (refusing := refuse_others(hosts, well_formed, "malformed")) is not None:
            hosts, filters[-1] = refusing, {**deny, "disabled": True}
    upstream = build_upstream_filters(options=kept.connection_options) if forwards else []
    filters.append(
        extension(
            "router",
            "filters.http.router.v3.Router",
            {
                "suppress_envoy_headers": True,
                **({"upstream_http_filters": upstream} if upstream else {}),
                "dynamic_stats": False,
            },
        )
    )
    handshakes: dict[str, Data] = {"upgrade_type": "websocket"}
    notes = dict(NOTES)
    if not client:
        notes["original_ip_detection_extensions"] = PEER_NOTE
    if not listener.underscores:
        notes["common_http_protocol_options"] = UNDERSCORES_NOTE
    if saves_proto(listener):
        notes["early_header_mutation_extensions"] += f" {PROTO_NOTE}"
    if coding:
        notes["early_header_mutation_extensions"] += f"\n{CODING_NOTE}"
    notes["normalize_path"] = PATH_NOTES["normalize" if normal else "contract" if kept.paths else "engine"]
    if forwards and kept.connection_options:
        whole = [*filters[:before_handshake], build_handshake_filter(), *filters[before_handshake:]]
        if any(each["name"] == RATE for each in filters):
            filters = whole  # a second chain would have buckets of its own
        else:
            notes["upgrade_configs"] = HANDSHAKE_NOTE
            handshakes["filters"] = [explain_filter(each) for each in whole]
    logs = build_access_log(listener, used, saved) if listener.logs else []
    logs += [build_release_log(plan, held) for held in _slot_keys(used, clusters)]
    removed: list[Data] = [
        *([TRANSFER_CODING] if coding else ()),
        *list_late_removals(listener, remote_address=remote_address),
    ]
    route_config: dict[str, Data] = {
        "name": listener.name,
        "ignore_port_in_host_matching": True,
        "most_specific_header_mutations_wins": True,  # what follows comes before the edits of routes
        # Envoy drops the body of a 200 that declines exactly `websocket`. With the trailing space Envoy does not
        # recognise the word; endpoints do not see the space.
        **({"request_headers_to_remove": removed} if removed else {}),
        **({"response_headers_to_remove": ["te"]} if forwards else {}),
        "request_headers_to_add": [header_option("upgrade", f"{_WORD} ", "OVERWRITE_IF_EXISTS")],
        "virtual_hosts": hosts,
    }
    route_notes = {**ROUTE_NOTES, **({"virtual_hosts": explained} if explained else {})}
    if max(bodies, default=0) > 4096:
        route_config["max_direct_response_body_size_bytes"] = max(bodies)
    return extension(
        "http",
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        comment_on(
            {
                "stat_prefix": listener.name,
                "codec_type": "AUTO" if listener.http2 else "HTTP1",
                **_limits(listener.limits),
                "http_protocol_options": {
                    "accept_http_10": True,
                    "default_host_for_http_10": NO_HOST,
                    "allow_custom_methods": True,
                    "ignore_http_11_upgrade": [regex(_NOT_WEBSOCKET)],
                },
                "common_http_protocol_options": {
                    "idle_timeout": duration(_idle_timeout(listener.timeouts.keepalive, close)),
                    **({} if listener.underscores else {"headers_with_underscores_action": "DROP_HEADER"}),
                },
                **build_client_timeouts(listener, used),
                "drain_timeout": duration(_DRAIN),
                "delayed_close_timeout": duration(close),
                **(
                    {"use_remote_address": True, "skip_xff_append": True}
                    if remote_address
                    else {"original_ip_detection_extensions": [_client(listener) if client else _peer()]}
                ),
                **build_early_mutations(listener, coding=coding, remote_address=remote_address),
                **({"normalize_path": False} if kept.paths else build_path_fields()),
                "forward_client_cert_details": "ALWAYS_FORWARD_ONLY",
                "generate_request_id": generates_request_id(listener),
                "server_header_transformation": "PASS_THROUGH",
                **(
                    {"local_reply_config": replies}
                    if (replies := build_local_replies(_reasons(listener, used)))
                    else {}
                ),
                **({"access_log": logs} if logs else {}),
                "http_filters": [explain_filter(each) for each in filters],
                "upgrade_configs": [handshakes],
                "route_config": comment_on(route_config, route_notes),
            },
            notes,
        ),
    )


def _slot_keys(routes: Iterable[Route], clusters: Clusters) -> list[str]:
    """The metadata keys of the slots that requests of these routes hold."""
    bounded = any(pool.max_per_endpoint is not None for route in routes for pool in clusters.target_pools(route))
    found = [REQUEST_SLOT] if any(route.concurrency is not None for route in routes) else []
    return [*found, *(SLOT_KEYS if bounded else ())]


def _idle_timeout(keepalive: int, close: int) -> int:
    """The time after which Envoy begins to close an idle connection."""
    return max(keepalive - _DRAIN - close, keepalive // 2)


def _limits(limits: Limits) -> dict[str, Data]:
    """Envoy counts whole KiB, and includes the request line."""
    if limits.headers is None:
        return {}
    return {"max_request_headers_kb": -(-limits.headers // 1024)}


def _peer() -> dict[str, Data]:
    """The TCP peer, whatever X-Forwarded-For says."""
    return extension(
        "tcp-peer", "http.original_ip_detection.custom_header.v3.CustomHeaderConfig", {"header_name": NO_HEADER}
    )


def _client(listener: Listener) -> dict[str, Data]:
    """The first address in X-Forwarded-For, from the right, that is not a trusted proxy."""
    return extension(
        "client",
        "http.original_ip_detection.xff.v3.XffConfig",
        {"xff_trusted_cidrs": {"cidrs": cidrs(listener.trusted_proxies, mapped=True)}, "skip_xff_append": True},
    )


def _reasons(listener: Listener, routes: list[Route]) -> ReplyCauses:
    limited = any(route.rate_limit is not None or route.concurrency is not None for route in routes)
    guarded = listener.access is not None or any(route.access is not None for route in routes)
    timed = any(isinstance(route.action, Forward) and route.action.timeouts.request for route in routes)
    refusals = (*((403,) if guarded else ()), *((429,) if limited else ()))
    kept = listener.guarantees
    return ReplyCauses(
        kept.answers, kept.framing or kept.paths, listener.limits.target is not None, bool(timed), refusals
    )


def _rewrites(rule: Rule, route: Route) -> set[str]:
    """What of the rule's requests changes before they are logged: `host`, `path`."""
    if has_request_host_redirect(rule, route):
        return {"host"}
    rewrite = route.action.rewrite if isinstance(route.action, Forward) else None
    if rewrite is None:
        return set()
    changed = {"host"} if rewrite.host is not None else set()
    return changed | {"path"} if rewrite.path is not None or rewrite.prefix is not None else changed
