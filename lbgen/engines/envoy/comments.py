"""Comments in envoy.yaml: why a field or a filter is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Commented

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.document import Data

NOTES: Mapping[str, str] = {
    "http_protocol_options": "WebSocket is the one upgrade; what else clients offer is passed over.",
    "http2_protocol_options": "By Envoy's guide for edge proxies: its own limits are for clients that are trusted.",
    "common_http_protocol_options": "A kept connection has this time, then drain_timeout and delayed_close_timeout.",
    "normalize_path": "Rules and endpoints see one spelling of a path.",
    "use_remote_address": "The client is the peer. Envoy would append its own address to that of a peer on loopback.",
    "early_header_mutation_extensions": "Applied before routing.",
    "access_log": "`lbgen logs` reads these fields.",
}
"""By field of a connection manager."""

ROUTE_NOTES: Mapping[str, str] = {
    "most_specific_header_mutations_wins": "What follows comes before the edits of routes.",
}
"""By field of a route configuration."""

HOSTS_NOTE = "Envoy searches the most specific host alone, so each host repeats the routes of wider ones."
TIMEOUT_NOTE = "timeout: 0s, as it would include the response body; the idle times limit silence."
TUNNEL_NOTE = "Of two routes of one name, the first is for WebSocket, which only idle_timeout ends."
PREFIX_NOTE = "A prefix becomes / by a regex: prefix_rewrite would leave // in front of what follows."

BUFFER_NOTE = "What waits for a slow peer on each side; Envoy's own limit of 1 MiB is for peers that are trusted."

CLUSTER_NOTES: Mapping[str, str] = {
    "per_connection_buffer_limit_bytes": BUFFER_NOTE,
    "circuit_breakers": "As many as clients may connect; by default Envoy answers 503 above 1024, and retries 3.",
    "typed_extension_protocol_options": "An unused connection is closed before most servers would close it.",
}
"""By field of the first cluster."""

CONNECT_NOTE = "A pool has a cluster for each connect timeout, and for each retry budget, of its routes."

_FILTERS: Mapping[str, str] = {
    "malformed": "Refuses broken escapes and control characters, which normalize_path leaves, TRACE, two Host lines,\n"
    "which Envoy joins, and chunks of HTTP/1.0.",
    "original-request": "Saves for the access log what routes rewrite.",
    "untrusted-peer": "Removes forwarded headers and request ids; skipped for trusted proxies.",
    "client-key": "An IPv4 address in IPv6 form has the bucket of the IPv4 address.",
}


def explain_filter(http_filter: dict[str, Data]) -> Data:
    """`http_filter` with a comment above it, if there is one for its name."""
    why = _FILTERS.get(str(http_filter["name"]))
    return http_filter if why is None else Commented(why, http_filter)
