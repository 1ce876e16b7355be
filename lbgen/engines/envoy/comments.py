"""Comments in envoy.yaml: why a field or a filter is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Commented

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.document import Data

NOTES: Mapping[str, str] = {
    "http_protocol_options": "HTTP/1.0 and methods of any name are accepted; WebSocket is the only upgrade.",
    "drain_timeout": "With idle_timeout the time of a kept connection; the latter is for pauses in a last response.",
    "use_remote_address": "The client is the TCP peer, whatever X-Forwarded-For says.",
    "original_ip_detection_extensions": "The client is who trusted proxies say it is, else the TCP peer.",
    "early_header_mutation_extensions": "Applied before routing, and before Envoy writes X-Forwarded-Proto.",
    "local_reply_config": "Status and body of Envoy's own responses; the first mapper that matches applies.",
}
"""By field of a connection manager."""

HANDSHAKE_NOTE = "WebSocket handshakes pass the same filters, and one more."

ROUTE_NOTES: Mapping[str, str] = {
    "request_headers_to_add": "The trailing space: Envoy drops the body of a 200 that declines exactly `websocket`.",
}
"""By field of a route configuration."""

HOSTS_NOTE = "Envoy searches the most specific host alone, so each host repeats the routes of wider ones."

CLUSTER_NOTES: Mapping[str, str] = {"circuit_breakers": "No limits: Envoy's defaults are 1024, with 503 above them."}
"""By field of the first cluster."""

CONNECT_NOTE = "A pool has a cluster for each connect timeout, and for each retry budget, of its routes."

_FILTERS: Mapping[str, str] = {
    "asked": "Saves for the access log what routes rewrite.",
    "untrusted-peer": "Removes forwarded headers and request ids; skipped for trusted proxies.",
    "odd-values": "Drops empty values and empty list elements that trusted proxies send; skipped for other requests.",
    "forwarded-headers": "Adds X-Forwarded-* and X-Request-Id.",
    "no-host": "HTTP/1.0 requests without a host get no X-Forwarded-Host.",
    "malformed": "Denies malformed requests: its 403 becomes 400 or 405 in local_reply_config. No others pass it.",
    "handshake": "Removes headers that Connection names, as Envoy itself does for requests without an upgrade.",
    "content-type": "Edits Content-Type of own responses, which Envoy sets after edits of routes; routes enable it.",
    "response-connection": "Removes headers that a response's Connection names; skipped where it names none.",
}


def explain_filter(http_filter: dict[str, Data]) -> Data:
    """`http_filter` with a comment above it, if there is one for its name."""
    why = _FILTERS.get(str(http_filter["name"]))
    return http_filter if why is None else Commented(why, http_filter)
