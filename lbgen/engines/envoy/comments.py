"""Comments in envoy.yaml: why a field or a filter is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Commented

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.document import Data

NOTES: Mapping[str, str] = {
    "http_protocol_options": "HTTP/1.0 and methods of any name are accepted, and WebSocket alone of upgrades.",
    "drain_timeout": (
        "idle_timeout and these two add up for a kept connection; the last also limits pauses in its last response."
    ),
    "use_remote_address": "The client is the TCP peer, whatever X-Forwarded-For says.",
    "original_ip_detection_extensions": "The client is who trusted proxies say it is, else the TCP peer.",
    "early_header_mutation_extensions": "Applied before routing, and before Envoy writes X-Forwarded-Proto.",
    "forward_client_cert_details": "X-Forwarded-Client-Cert passes, like every header that the topology does not name.",
    "local_reply_config": "Status and body of Envoy's own responses; the first mapper that matches applies.",
    "access_log": "`lbgen logs` reads these fields.",
}
"""By field of a connection manager."""

PEER_NOTE = "The client is the TCP peer, whatever X-Forwarded-For says: no client can send a header :none."
UNDERSCORES_NOTE = "Some servers read x_a as x-a."
PROTO_NOTE = "x-lbgen-proto keeps the value that came."
CODING_NOTE = "x-lbgen-coded holds the version of a request with a transfer coding, which HTTP/1.0 does not have."

PATH_NOTES: Mapping[str, str] = {
    "engine": "Rules and endpoints see one spelling of a path: without .. and //, and no escaped slash.",
    "contract": "Paths are matched and forwarded as they come; the filter `malformed` refuses ambiguous ones.",
    "normalize": "The filter `normal-form` does it, for escapes too.",
}
"""Why Envoy does not normalise paths, by what the topology says."""

HANDSHAKE_NOTE = "WebSocket handshakes pass the same filters, and one more."

ROUTE_NOTES: Mapping[str, str] = {
    "request_headers_to_remove": "te and trailer belong to one connection, x-lbgen-* to this proxy.",
    "request_headers_to_add": "The trailing space: Envoy drops the body of a 200 that declines exactly `websocket`.",
}
"""By field of a route configuration."""

HOSTS_NOTE = "Envoy searches the most specific host alone, so each host repeats the routes of wider ones."
TIMEOUT_NOTE = "timeout: 0s, as it would include the response body; the idle times limit silence."
TUNNEL_NOTE = "Of two routes of one name, the first is for WebSocket, which only idle_timeout ends."
PREFIX_NOTE = "A prefix becomes / by a regex: prefix_rewrite would leave // in front of what follows."

CLUSTER_NOTES: Mapping[str, str] = {
    "circuit_breakers": "No limits: by default Envoy answers 503 above 1024 requests, and allows 3 retries at a time.",
    "typed_extension_protocol_options": "An unused connection is closed before most servers would close it.",
}
"""By field of the first cluster."""

CONNECT_NOTE = "A pool has a cluster for each connect timeout, and for each retry budget, of its routes."

_FILTERS: Mapping[str, str] = {
    "original-request": "Saves for the access log what routes rewrite.",
    "untrusted-peer": "Removes forwarded headers and request ids; skipped for trusted proxies.",
    "odd-values": "Drops empty values of trusted proxies, and joins lines of X-Forwarded-For by a comma and a blank.",
    "forwarded-headers": "Adds X-Forwarded-* and X-Request-Id.",
    "no-host": "HTTP/1.0 requests without a host get no X-Forwarded-Host.",
    "malformed": "Answers 403, which local_reply_config maps to 400 or 405; skipped for well-formed requests.\n"
    "RBAC tries its policies in the order of their names.",
    "handshake": "Removes headers that Connection names, as Envoy itself does for requests without an upgrade.",
    "content-type": "Edits Content-Type of own responses, which Envoy sets after edits of routes; routes enable it.",
    "response-connection": "Removes headers that a response's Connection names; skipped where it names none.",
}


def explain_filter(http_filter: dict[str, Data]) -> Data:
    """`http_filter` with a comment above it, if there is one for its name."""
    why = _FILTERS.get(str(http_filter["name"]))
    return http_filter if why is None else Commented(why, http_filter)
