"""X-Forwarded-*, X-Request-Id and hop-by-hop headers: header mutation filters, by whether the peer is trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.balancing import PEER_STATE
from lbgen.engines.envoy.conditional_filters import run_first, skip_where_address_in
from lbgen.engines.envoy.headers import SET, build_mutation_filter, header_option
from lbgen.engines.envoy.lua import build_lua_filter, load_lua
from lbgen.engines.envoy.predicates import NETWORK_INPUTS, any_of, cidrs, header_equals, header_matches
from lbgen.engines.envoy.protobuf import extension

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Match

# Envoy serves HTTP/1.0 requests without a host only if a default is set; RFC 6761 reserves this name.
NO_HOST = "no-host.invalid"
# The TCP peer. What use_remote_address itself would append for a peer on loopback is Envoy's own address.
_PEER = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%"
# Once Envoy has found the client behind trusted proxies, the source in a PROXY header is not available any more.
_SAVED_PEER = f"%FILTER_STATE({PEER_STATE}:PLAIN)%"
_ID = "x-request-id"
_FOR = "x-forwarded-for"
PROTO = "x-forwarded-proto"
_HOST = "x-forwarded-host"
_PORT = "x-forwarded-port"
_NAMES = (_FOR, PROTO, _HOST, _PORT, _ID)
SAVED_PROTO = "x-lbgen-proto"  # internal: removed before the endpoint
_EXTERNAL = "x-lbgen-external-address"  # set by Envoy beside use_remote_address
PEER_ADDRESS = "lbgen.peer-address"  # the filter state with the peer, for rules
NO_HEADER = ":none"  # no client can send a header of this name
TRANSFER_CODING = "x-lbgen-coded"  # the protocol of a request with a transfer coding; internal
_HOP = ("te", "trailer")  # hop-by-hop headers that Envoy forwards

# Envoy joins several lines by a bare comma, and some of its operators treat an empty value as present. A value that
# counts as absent is removed, and addresses are joined by ", ".
_ODD_LIST = r"|[^,]*,(?:[^ ]\C*)?|\C*,[^ ]\C*|\C*,[ ]*"


def build_early_mutations(listener: Listener, *, coding: bool, remote_address: bool) -> dict[str, Data]:
    """The field for header mutations before Envoy itself reads a request head; they cost less than a filter.

    Envoy sets X-Forwarded-Proto to the scheme of the connection, which is the contract's value; without
    `remote_address` (the field use_remote_address) only if there is none. So the value that rules match, and that of a
    trusted peer, is saved under another name. With `coding` the presence of Transfer-Encoding, which Envoy removes, is
    saved: it is malformed in HTTP/1.0.
    """
    coded: list[Data] = [
        {"remove": TRANSFER_CODING},
        {"append": header_option(TRANSFER_CODING, "%REQ(TRANSFER-ENCODING)%", SET)},  # no effect without a value
        {"append": header_option(TRANSFER_CODING, "%PROTOCOL%", "OVERWRITE_IF_EXISTS")},
    ]
    mutations: list[Data] = [*(coded if coding else ()), *(() if remote_address else ({"remove": PROTO},))]
    if saves_proto(listener):
        kept: Data = {"append": header_option(SAVED_PROTO, "%REQ(X-FORWARDED-PROTO)%", "ADD_IF_ABSENT")}
        mutations = [{"remove": SAVED_PROTO}, kept, *mutations]
    if _is_early(listener):
        ours = {name: value for name, value in _own_headers(listener).items() if name not in (PROTO, _ID)}
        mutations += _mutations(
            [name for name in _NAMES if name not in ours and name != PROTO],
            [header_option(name, value, SET) for name, value in ours.items()],
        )
    if not mutations:
        return {}
    kind = "http.early_header_mutation.header_mutation.v3.HeaderMutation"
    return {"early_header_mutation_extensions": [extension("before-routing", kind, {"mutations": mutations})]}


def list_late_removals(listener: Listener, *, remote_address: bool) -> list[str]:
    """Headers that routing needs and endpoints must not see, and hop-by-hop headers: removing them after routing costs
    less than a mutation."""
    removed = [*_HOP, *([SAVED_PROTO] if saves_proto(listener) else ()), *((_EXTERNAL,) if remote_address else ())]
    return [PROTO, *removed] if _is_early(listener) and PROTO not in _own_headers(listener) else removed


def generates_request_id(listener: Listener) -> bool:
    """Whether Envoy itself gives an X-Request-Id to requests without one, after the early mutations: that costs less
    than a mutation."""
    return listener.request_id and _is_early(listener)


def _is_early(listener: Listener) -> bool:
    """Whether the headers are written before routing, so that rules see what endpoints see: no peer is trusted."""
    return not listener.trusted_proxies


def build_forwarded_filters(listener: Listener) -> list[dict[str, Data]]:
    """The filters that write X-Forwarded-* and X-Request-Id, in order."""
    if _is_early(listener):
        return []
    ours = _own_headers(listener)
    clients = [*(name for name in _NAMES if name != PROTO), SAVED_PROTO]
    untrusted = skip_where_address_in(
        listener.trusted_proxies, _peer_input(listener), _header_mutation("untrusted-peer", clients, [])
    )
    if not listener.guarantees.framing:
        return [untrusted, _write_headers(ours, plain=True)]
    odd = [header_matches(_FOR, _ODD_LIST), *(header_equals(name, "") for name in ours if name not in (_FOR, PROTO))]
    rewrite = build_lua_filter("odd-values", load_lua("forwarded_values"))
    return [untrusted, run_first("odd-values", (any_of(*odd), rewrite)), _write_headers(ours), *_no_host(ours)]


def _write_headers(ours: dict[str, str], removed: Iterable[str] = (), *, plain: bool = False) -> dict[str, Data]:
    """The filter that adds to what a trusted peer sent, or writes what is absent; a `plain` list of addresses has no
    blanks behind its commas, as Envoy's own."""
    added: list[dict[str, Data]] = []
    if _FOR in ours and plain:
        added = [{"header": {"key": _FOR, "value": ours[_FOR]}}]  # appends by default
    elif _FOR in ours:
        added = [
            header_option(_FOR, f"%REQ(X-FORWARDED-FOR)%, {ours[_FOR]}", "OVERWRITE_IF_EXISTS"),
            header_option(_FOR, ours[_FOR], "ADD_IF_ABSENT"),
        ]
    added += [header_option(name, value, "ADD_IF_ABSENT") for name, value in ours.items() if name not in (_FOR, PROTO)]
    made = PROTO in ours  # by Envoy
    saved = header_option(PROTO, f"%REQ({SAVED_PROTO.upper()})%", "OVERWRITE_IF_EXISTS" if made else "ADD_IF_ABSENT")
    # Without a value it has no effect.
    return _header_mutation("forwarded-headers", [*removed, *(() if made else (PROTO,))], [*added, saved])


def _no_host(ours: dict[str, str]) -> list[dict[str, Data]]:
    """The filter for HTTP/1.0 requests without a host, whose X-Forwarded-Host would be Envoy's name for them."""
    if _HOST not in ours:
        return []
    return [run_first("no-host", (header_equals(_HOST, NO_HOST), _header_mutation("no-host", [_HOST], [])))]


def build_no_host_edits(listener: Listener) -> dict[str, Data]:
    """The fields of a virtual host for HTTP/1.0 requests without a host, whose X-Forwarded-Host would be Envoy's name
    for them; empty where there is none."""
    return {"request_headers_to_remove": [_HOST]} if listener.forwarded_headers and _is_early(listener) else {}


def _peer_input(listener: Listener) -> dict[str, Data]:
    if listener.proxy_protocol:
        return extension("peer", f"{NETWORK_INPUTS}.FilterStateInput", {"key": PEER_STATE})
    return extension("peer", f"{NETWORK_INPUTS}.DirectSourceIPInput")


def saves_proto(listener: Listener) -> bool:
    """Whether X-Forwarded-Proto is saved as it came, from a trusted peer."""
    return bool(listener.trusted_proxies)


def match_trusted_peer(listener: Listener, match: Match) -> dict[str, Data]:
    """The field of a route match for a trusted peer, where a rule asks for what only such a peer may send: the headers
    of others are removed once a route is found. Empty elsewhere."""
    if not listener.trusted_proxies or not any(header.name in _NAMES for header in match.headers):
        return {}
    ranges = cidrs(listener.trusted_proxies, mapped=True)
    return {"filter_state": [{"key": PEER_ADDRESS, "address_match": {"ranges": ranges}}]}


def matches_trusted_peer(listener: Listener) -> bool:
    """Whether some rule of the listener does so."""
    return any(match_trusted_peer(listener, rule.match) for table in listener.hosts for rule in table.rules)


def peer_address(listener: Listener) -> str:
    """The peer of the connection, in Envoy's format syntax."""
    return _SAVED_PEER if listener.proxy_protocol else _PEER


def _own_headers(listener: Listener) -> dict[str, str]:
    """The headers that the listener writes, with their values in Envoy's format syntax."""
    ours: dict[str, str] = {}
    if listener.forwarded_headers:
        ours = {
            _FOR: peer_address(listener),
            PROTO: listener.scheme,
            _HOST: "%REQ(:AUTHORITY)%",
            _PORT: str(listener.client_port),
        }
    if listener.request_id:
        ours[_ID] = "%UNIQUE_ID%"
    return ours


def _header_mutation(name: str, removed: Iterable[str], appended: Iterable[dict[str, Data]]) -> dict[str, Data]:
    """A filter that removes headers, then adds headers."""
    return build_mutation_filter(name, _mutations(removed, appended))


def _mutations(removed: Iterable[str], appended: Iterable[dict[str, Data]]) -> list[Data]:
    return [*({"remove": header} for header in removed), *({"append": each} for each in appended)]
