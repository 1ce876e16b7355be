"""X-Forwarded-*, X-Request-Id and the address of a client: what peers say of them, and what endpoints get.

Early header mutations come first, before Envoy reads a head. Without trusted proxies they write the headers. With them
they save the peer's address, by which Envoy tells trusted peers from others, whose headers it removes before routing;
the route configuration then adds what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.engines.document import Commented
from lbgen.engines.envoy.mutations import APPEND, SET, build_mutation_filter, header_option
from lbgen.engines.envoy.predicates import address_in, cidrs, has_mapped_addresses, header_input
from lbgen.engines.envoy.protobuf import extension
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute
from lbgen.plan.auth import BasicAuth, ForwardAuth
from lbgen.plan.conditions import FEATURES, AnySubject, Header
from lbgen.plan.forwarding import REAL_IP as _REAL_IP
from lbgen.plan.forwarding import RFC_7239 as _FORWARDED
from lbgen.plan.forwarding import client_fields
from lbgen.plan.model import Forward, Listener, Match, Mode, Plan, Route, Rule

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_TOO_LATE = refused(
    "Envoy chooses the filters of a request before it has the client's address behind trusted proxies, so that access "
    "lists, auth, limits, compression, buffering and sticky cookies of a route that is chosen by `sources` would not "
    "hold; nginx, HAProxy and Traefik can"
)
_REMOTE = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"  # before filters of requests the peer, also of PROXY headers
_PREFIX = "x-lbgen-"  # of headers that Envoy obeys or writes, see static.py
_ID = "x-request-id"
_NEW_ID = "%UNIQUE_ID%"
_FOR = "x-forwarded-for"
PROTO = "x-forwarded-proto"
_HOST = "x-forwarded-host"
_PORT = "x-forwarded-port"
_NAMES = (_FOR, PROTO, _HOST, _PORT, _ID)
SAVED_PROTO = "x-lbgen-proto"  # a trusted peer's X-Forwarded-Proto, which Envoy itself needs to be http or https
PEER = "x-lbgen-peer"
FRAMING = "x-lbgen-framing"  # the protocol of a request with a transfer coding, which HTTP/1.0 does not have
_INTERNAL = "x-lbgen-internal"  # Envoy marks requests of trusted peers by it
_EXTERNAL = "x-lbgen-external-address"  # set by Envoy beside use_remote_address
_PEER_ADDRESS = "lbgen.peer-address"  # the filter state with the peer, for rules beside `HttpListener.by_client`
_CLIENT = "lbgen.client"  # the filter state with the client, for rules that ask for its address
STATED_CLIENT = "lbgen.stated-client"  # where a PROXY header or a trusted proxy states it, maybe IPv4 in IPv6 form
_ROUTE_AGAIN = "function envoy_on_request(handle) handle:clearRouteCache() end"
_OPTIONS = Commented(
    "Envoy keeps Connection of WebSocket handshakes, and drops it, and the fields that it names, of other requests.",
    header_option("connection", "upgrade", "OVERWRITE_IF_EXISTS"),
)
_WHY_STATED = "The client is read from X-Forwarded-For, so what its proxy states elsewhere is put there."
_WHY_PEER = "The client is the peer. Envoy would append its own address to that of a peer on loopback."
_WHY_AGAIN = "Rules match the client's address, which Envoy reads after it has selected a route: select it again."
_WHY_SAVED = "Envoy finds routes only with an X-Forwarded-Proto of its own, so that of a trusted proxy is put aside."


def _manager(on: HttpListener) -> dict[str, Data]:
    filters = [*_build_untrusted_filters(on), *_build_client_filters(on.listener)]
    return {**_build_client_detection(on), "http_filters": filters, "route_config": _build_header_rules(on)}


def _build_client_detection(on: HttpListener) -> dict[str, Data]:
    """The fields of a connection manager by which it finds the client and, before routing, rewrites the headers."""
    listener = on.listener
    identities: list[Data] = [{"remove": name} for name in on.plan.identity_headers(listener)]
    if not listener.trusted_proxies:
        ours = {name: value for name, value in _own_headers(listener).items() if name not in (PROTO, _ID)}
        kept = {PROTO, *ours}
        return {
            "use_remote_address": Commented(_WHY_PEER, True),
            "skip_xff_append": True,
            **_early(
                [
                    *({"remove": x} for x in (*_NAMES, *sorted(client_fields(listener)), FRAMING) if x not in kept),
                    *identities,
                ],
                [header_option(x, v, SET) for x, v in ours.items()],
            ),
            **({} if listener.request_id else {"generate_request_id": False}),
        }
    # Envoy obeys these headers where its peer is internal, and a trusted proxy may pass on what clients send.
    control: Data = {"remove_on_match": {"key_matcher": {"prefix": _PREFIX}}}
    stated = listener.client_header
    early = _early(
        [control, *([] if stated is None else [Commented(_WHY_STATED, {"remove": _FOR})]), *identities],
        [
            *([] if stated is None else [header_option(_FOR, f"%REQ({stated.upper()})%", "ADD_IF_ABSENT")]),
            header_option(SAVED_PROTO, "%REQ(X-FORWARDED-PROTO)%", "ADD_IF_ABSENT"),
            header_option(PEER, _REMOTE, "ADD_IF_ABSENT"),
        ],
        [Commented(_WHY_SAVED, {"remove": PROTO})],
    )
    if on.by_client:
        trusted = cidrs(listener.trusted_proxies, mapped=True)
        client: dict[str, Data] = {"xff_trusted_cidrs": {"cidrs": trusted}, "skip_xff_append": True}
        found = extension("client", "http.original_ip_detection.xff.v3.XffConfig", client)
        why = "The client is who trusted proxies say it is, else the peer."
        return {"original_ip_detection_extensions": Commented(why, [found]), **early, "generate_request_id": False}
    peer: dict[str, Data] = {"header_name": PEER, "allow_extension_to_set_address_as_trusted": True}
    found = extension("peer", "http.original_ip_detection.custom_header.v3.CustomHeaderConfig", peer)
    return {
        "original_ip_detection_extensions": [found],
        "internal_address_config": {"cidr_ranges": cidrs(listener.trusted_proxies, mapped=listener.proxy_protocol)},
        **early,
        **({} if listener.request_id else {"generate_request_id": False}),
    }


def _build_untrusted_filters(on: HttpListener) -> list[Data]:
    """The filter that removes forwarded headers of untrusted peers where `internal_only_headers` cannot, as Envoy asks
    there for the client's address and not for the peer's."""
    if not on.by_client:
        return []
    mutations: list[Data] = [{"remove": name} for name in _removed_names(on.listener)]
    trusted = address_in(on.listener.trusted_proxies, header_input(PEER), "trusted", mapped=True)
    skip: dict[str, Data] = {"action": extension("skip", "filters.common.matcher.action.v3.SkipFilter")}
    fields: dict[str, Data] = {
        "extension_config": build_mutation_filter("untrusted-peer", mutations),
        "xds_matcher": {"matcher_list": {"matchers": [{"predicate": trusted, "on_match": skip}]}},
    }
    why = "Removes forwarded headers and request ids; skipped for trusted proxies."
    return [Commented(why, extension("untrusted-peer", "common.matching.v3.ExtensionWithMatcher", fields))]


def _build_client_filters(listener: Listener) -> list[Data]:
    """The filters that save the client's address as trusted proxies state it, and select the route again by it."""
    if not (listener.asks_client and listener.trusted_proxies):
        return []
    state: dict[str, Data] = {"on_request_headers": [_address_state(STATED_CLIENT)]}
    script: dict[str, Data] = {"default_source_code": {"inline_string": _ROUTE_AGAIN}}
    return [
        Commented(_WHY_AGAIN, extension("client", "filters.http.set_filter_state.v3.Config", state)),
        extension("route-by-client", "filters.http.lua.v3.Lua", script),
    ]


def build_id_filter() -> Data:
    """The filter that makes a missing request id at once; where the client counts, routing makes it otherwise."""
    return build_mutation_filter("request-id", [{"append": header_option(_ID, _NEW_ID, "ADD_IF_ABSENT")}])


def _build_header_rules(on: HttpListener) -> dict[str, Data]:
    """The fields of a route configuration for these headers."""
    ours = _own_headers(on.listener)
    if not on.listener.trusted_proxies:
        return {
            "request_headers_to_remove": [*([] if PROTO in ours else [PROTO]), _EXTERNAL, FRAMING],
            "request_headers_to_add": [_OPTIONS],
        }
    added = []
    for name, value in ours.items():
        if name == _REAL_IP or (name == _FOR and on.listener.client_header is not None):
            added.append(header_option(name, value, SET))
        elif name == _FORWARDED:
            added.append(header_option(name, value, APPEND if on.listener.extends_forwarded else SET))
        elif name == _FOR:
            added.append(header_option(name, f"%REQ({PEER.upper()})%", "APPEND_IF_EXISTS_OR_ADD"))
        elif name == PROTO:
            added.append(header_option(name, f"%REQ({SAVED_PROTO.upper()})%", "OVERWRITE_IF_EXISTS"))
        elif name != _ID or on.by_client:  # otherwise Envoy itself makes the id
            added.append(header_option(name, value, "ADD_IF_ABSENT"))
    if PROTO not in ours:
        added.append(header_option(PROTO, f"%REQ({SAVED_PROTO.upper()})%", "ADD_IF_ABSENT"))
    why = "Removed before routing where the peer is not in internal_address_config."
    passed = [] if PROTO in ours else [PROTO, *([] if on.listener.client_header is None else [_FOR])]
    return {
        **({} if on.by_client else {"internal_only_headers": Commented(why, list(_removed_names(on.listener)))}),
        "request_headers_to_remove": [*passed, _INTERNAL, FRAMING],
        "request_headers_to_add": [*added, _OPTIONS],
    }


def _virtual_host(on: HttpListener) -> dict[str, Data]:
    """Headers that the rules of the route configuration still read."""
    return {"request_headers_to_remove": [PEER, SAVED_PROTO]} if on.listener.trusted_proxies else {}


def _asks_for_trusted(on: HttpListener, match: Match) -> bool:
    """Whether a rule asks for what only trusted peers may send, and the headers of others are removed after routing."""
    return on.by_client and any(each.subject.name in _NAMES for each in match.on(Header))


def _route(at: HttpRoute) -> dict[str, Data]:
    if not _asks_for_trusted(at.on, at.rule.match):
        return {}
    ranges = cidrs(at.on.listener.trusted_proxies, mapped=True)
    return {"match": {"filter_state": [{"key": _PEER_ADDRESS, "address_match": {"ranges": ranges}}]}}


def build_facts(listener: Listener) -> dict[str, str]:
    """X-Forwarded-For, -Proto and -Host of requests as filters find them, in Envoy's format syntax. Behind trusted
    proxies X-Forwarded-For is what the peer sent, which `PEER` follows."""
    if not listener.trusted_proxies:
        return {_FOR: _REMOTE, PROTO: listener.scheme, _HOST: "%REQ(:AUTHORITY)%"}
    return {
        PEER: f"%REQ({PEER.upper()})%",
        PROTO: f"%REQ({SAVED_PROTO.upper()}?{PROTO.upper()})%",
        _HOST: f"%REQ({_HOST.upper()}?:AUTHORITY)%",
    }


def name_in_envoy(subject: AnySubject, listener: Listener) -> str:
    """The name by which Envoy has what a condition looks at."""
    if subject == Header(PROTO):
        return SAVED_PROTO if listener.trusted_proxies else PROTO
    if subject.is_client:
        return STATED_CLIENT if has_mapped_addresses(listener) else _CLIENT
    return subject.name


def _network_filters(on: HttpListener) -> list[Data]:
    """The filter that saves the peer of a connection, also from its PROXY header, for rules that ask for it."""
    states: list[Data] = []
    if any(_asks_for_trusted(on, rule.match) for table in on.listener.hosts for rule in table.rules):
        states.append(_address_state(_PEER_ADDRESS))
    if on.listener.asks_client and not on.listener.trusted_proxies:
        states.append(_address_state(STATED_CLIENT if on.listener.proxy_protocol else _CLIENT))
    if not states:
        return []
    return [extension("peer", "filters.network.set_filter_state.v3.Config", {"on_new_connection": states})]


def _address_state(key: str) -> dict[str, Data]:
    """The filter state `key`: the peer where a connection begins, the client where a request does."""
    return {
        "object_key": key,
        "factory_key": "envoy.network.ip",
        "format_string": {"text_format_source": {"inline_string": _REMOTE}},
    }


def _removed_names(listener: Listener) -> tuple[str, ...]:
    return (*(name for name in _NAMES if name != PROTO), *sorted(client_fields(listener)), SAVED_PROTO)


def _early(
    removed: Iterable[Data], added: Iterable[dict[str, Data]], then_removed: Iterable[Data] = ()
) -> dict[str, Data]:
    coded: dict[str, Data] = {"append": header_option(FRAMING, "%REQ(TRANSFER-ENCODING)%", "ADD_IF_ABSENT")}
    mutations = [
        *removed,
        *({"append": each} for each in added),
        Commented("Where there is a transfer coding: the protocol, as HTTP/1.0 has none.", coded),
        {"append": header_option(FRAMING, "%PROTOCOL%", "OVERWRITE_IF_EXISTS")},
        *then_removed,
    ]
    kind = "http.early_header_mutation.header_mutation.v3.HeaderMutation"
    early = [extension("before-routing", kind, {"mutations": mutations})]
    return {"early_header_mutation_extensions": Commented("Applied before routing.", early)}


def _own_headers(listener: Listener) -> dict[str, str]:
    """The headers that the listener writes, with their values in Envoy's format syntax."""
    ours: dict[str, str] = {}
    if listener.forwarded_headers:
        ours = {
            _FOR: _REMOTE,
            PROTO: listener.scheme,
            _HOST: "%REQ(:AUTHORITY)%",
            _PORT: str(listener.client_port),
        }
    if listener.real_ip:
        ours[_REAL_IP] = _REMOTE
    if listener.forwarded:
        ours[_FORWARDED] = _write_forwarded(listener)
    if listener.request_id:
        ours[_ID] = _NEW_ID
    return ours


def _write_forwarded(listener: Listener) -> str:
    """An element of Forwarded (RFC 7239), which quotes what is no token."""
    node, is_ipv6 = _REMOTE, "source.address.startsWith('[')"
    if listener.trusted_proxies and listener.extends_forwarded:
        node, is_ipv6 = f"%REQ({PEER.upper()})%", f"request.headers['{PEER}'].contains(':')"
    is_special = "request.host.matches('[^A-Za-z0-9_.~!$&+*-]')"

    def only(condition: str, text: str) -> str:
        return f"%CEL({condition} ? '{text}' : '')%"

    quote = only(is_special, '"')
    opened, closed = only(is_ipv6, '"['), only(is_ipv6, ']"')
    return f"for={opened}{node}{closed};host={quote}%REQ(:AUTHORITY)%{quote};proto={listener.scheme}"


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    """Envoy selects the route again once it has the client's address, and has chosen the filters that routes enable by
    then: those of the rule that holds for requests of no client. Its filter of access lists lets all pass where a route
    has none; other filters act."""
    for listener in plan.listeners:
        if listener.mode is Mode.L4 or not (listener.asks_client and listener.trusted_proxies):
            continue
        rules = [rule for table in listener.hosts for rule in table.rules]
        acting = [rule for rule in rules if _enables_filters(plan, plan.route(rule.route))]
        for rule in rules:
            asked = [each for each in rule.match.conditions if each.subject.is_client]
            if asked and (plan.route(rule.route).access or any(_may_meet(rule, each) for each in acting)):
                yield from (Objection(_TOO_LATE, f"{rule.field}.{each.field}", FEATURES[each.kind]) for each in asked)


def _may_meet(one: Rule, other: Rule) -> bool:
    """Whether a request may fulfil both, by host and path."""
    hosts, paths = (one.host, other.host), (one.match.path, other.match.path)
    if hosts[0] and hosts[1] and not (hosts[0].covers_pattern(hosts[1]) or hosts[1].covers_pattern(hosts[0])):
        return False
    return not all(each.is_text for each in paths) or paths[0].implies(paths[1]) or paths[1].implies(paths[0])


def _enables_filters(plan: Plan, route: Route) -> bool:
    """Whether there are filters beside that of access lists that this route enables."""
    on_requests = (route.rate_limit, route.max_body, route.compression)
    if any(each is not None for each in on_requests) or isinstance(route.auth, BasicAuth | ForwardAuth):
        return True
    forward = route.action
    return isinstance(forward, Forward) and (
        forward.buffering.request or any(plan.pool(target.pool).sticky for target in forward.targets)
    )


FORWARDED_HEADERS = Contributor(
    network_filters=_network_filters,
    manager=_manager,
    virtual_host=_virtual_host,
    route=_route,
    objections=_objections,
)
