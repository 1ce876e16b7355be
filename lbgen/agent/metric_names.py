"""The metrics by name, with their types, labels and meanings. They are the same for every engine, and stay as they are:
dashboards and alerts name them."""

from __future__ import annotations

from msgspec import Struct

# Upper bounds of the buckets of histograms, in seconds. Engines log whole milliseconds.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
NONE = "-"  # no route served it, or no pool
OTHER_METHOD = "other"  # a method that is in no standard and in no route, or none that could be read
NO_STATUS = "none"  # the client left before there was an answer
STATUS_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx", NO_STATUS)


class Family(Struct, frozen=True):
    """A metric. `name` is that of the samples, for a histogram without `_bucket`, `_sum` and `_count`."""

    name: str
    type: str  # counter, gauge or histogram
    help: str
    labels: tuple[str, ...]


INFO = Family("lbgen_info", "gauge", "1; the labels say what is measured.", ("stack", "engine", "version"))
REQUESTS = Family(
    "lbgen_requests_total",
    "counter",
    "Requests that ended.",
    ("listener", "route", "pool", "method", "status_class"),
)
DURATION = Family(
    "lbgen_request_duration_seconds",
    "histogram",
    "Time from the first byte of a request to the last byte of its response.",
    ("listener", "route"),
)
UPSTREAM_DURATION = Family(
    "lbgen_upstream_duration_seconds",
    "histogram",
    "Time that endpoints took, all tries of a request together.",
    ("route", "pool"),
)
TRIES = Family("lbgen_upstream_tries_total", "counter", "Requests sent to endpoints, each try.", ("route", "pool"))
RETRIED = Family("lbgen_retried_requests_total", "counter", "Requests that took more than one try.", ("route", "pool"))
BYTES = Family("lbgen_response_body_bytes_total", "counter", "Bytes of response bodies.", ("listener", "route"))
L4_CONNECTIONS = Family(
    "lbgen_l4_connections_total",
    "counter",
    "Connections of L4 listeners that had an endpoint, and ended.",
    ("listener", "pool"),
)
L4_DURATION = Family(
    "lbgen_l4_connection_duration_seconds",
    "histogram",
    "Time from the start of a connection to its end.",
    ("listener",),
)
L4_RECEIVED = Family("lbgen_l4_received_bytes_total", "counter", "Bytes that clients sent.", ("listener", "pool"))
L4_SENT = Family("lbgen_l4_sent_bytes_total", "counter", "Bytes sent to clients.", ("listener", "pool"))
CONNECTIONS = Family("lbgen_connections", "gauge", "Open client connections over TCP.", ("listener",))
ENDPOINT_STATE = Family(
    "lbgen_endpoint_state",
    "gauge",
    "1 for the state that an endpoint is in, 0 for the others.",
    ("pool", "endpoint", "state"),
)
UNREAD = Family(
    "lbgen_unread_log_lines_total", "counter", "Lines of the metrics log that were cut or not understood.", ()
)

FAMILIES = (
    INFO,
    REQUESTS,
    DURATION,
    UPSTREAM_DURATION,
    TRIES,
    RETRIED,
    BYTES,
    L4_CONNECTIONS,
    L4_DURATION,
    L4_RECEIVED,
    L4_SENT,
    CONNECTIONS,
    ENDPOINT_STATE,
    UNREAD,
)
