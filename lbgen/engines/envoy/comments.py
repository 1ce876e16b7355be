"""Comments in envoy.yaml: why a field or a filter is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Commented

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.document import Data

NOTES: Mapping[str, str] = {
    "http_protocol_options": "HTTP/1.0, methods of any name, and upgrades to nothing but WebSocket, whatever its case.",
    "drain_timeout": "The client reads the last answer before an idle connection is closed.",
    "use_remote_address": "The client is the TCP peer, whatever headers say.",
    "early_header_mutation_extensions": "Before routing. Envoy then sets X-Forwarded-Proto itself.",
    "local_reply_config": "Envoy's own answers, with the contract's status and text; the first that matches counts.",
    "upgrade_configs": "A WebSocket handshake passes the same filters and one more.",
}
"""By field of a connection manager."""

ROUTE_NOTES: Mapping[str, str] = {
    "request_headers_to_add": "Not the word itself: Envoy drops the body of a 200 that declines it.",
    "virtual_hosts": "The most specific host counts, so each has the rules of wider hosts too.",
}
"""By field of a route configuration."""

RESOURCE_NOTES: Mapping[str, str] = {"clusters": "A pool has a cluster for each connect timeout of its routes."}
"""By field of the static resources."""

CLUSTER_NOTES: Mapping[str, str] = {"circuit_breakers": "No limit; Envoy's own is 1024, and answers 503 above it."}
"""By field of the first cluster."""

_FILTERS: Mapping[str, str] = {
    "asked": "Host and path for the log, before a route rewrites them.",
    "untrusted-peer": "Nobody else may say who the client is.",
    "odd-values": "Empty values, and lists with empty elements or without blanks, from trusted peers; else skipped.",
    "forwarded-headers": "Hop-by-hop headers go; who asked, and for what, is added.",
    "no-host": "HTTP/1.0 without a host.",
    "malformed": "Skipped for what passes these tests; else 403, of which local_reply_config makes 400 or 405.",
    "handshake": "Headers that the Connection of a handshake names; Envoy drops those of other requests.",
    "content-type": "Envoy sets the type of its own answers after the edits of routes; routes enable this one.",
    "response-connection": "Headers that the Connection of a response names.",
}


def explain_filter(http_filter: dict[str, Data]) -> Data:
    """`http_filter` with a comment above it, if there is one for its name."""
    why = _FILTERS.get(str(http_filter["name"]))
    return http_filter if why is None else Commented(why, http_filter)
