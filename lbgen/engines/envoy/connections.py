"""Connections to endpoints: their protocol, how many there are, and how long an unused one is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.envoy.protobuf import duration, typed
from lbgen.engines.envoy.timeouts import MOST_HEADERS
from lbgen.engines.envoy.view import Cluster, Contributor
from lbgen.plan.model import Plan, Pool, PoolProtocol

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_MOST = 50_000  # as many as clients may connect, see static.py
# For peers that are not trusted, as Envoy's guide for edge proxies says.
HTTP2_LIMITS: dict[str, Data] = {
    "max_concurrent_streams": 100,
    "initial_stream_window_size": 65_536,
    "initial_connection_window_size": 1_048_576,
}
HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def _cluster(cluster: Cluster) -> dict[str, Data]:
    found: dict[str, Data] = {"circuit_breakers": _breakers(cluster)}
    if cluster.is_l7:
        found["typed_extension_protocol_options"] = {HTTP_OPTIONS: typed(HTTP_OPTIONS, _protocol(cluster.pool))}
    return found


def _breakers(cluster: Cluster) -> dict[str, Data]:
    pool, options = cluster.pool, cluster.options
    found: dict[str, Data] = {"max_connections": _MOST, "max_pending_requests": _MOST, "max_requests": _MOST}
    if options.budget is None:
        found["max_retries"] = _MOST
    else:
        found["retry_budget"] = {"budget_percent": {"value": options.budget}, "min_retry_concurrency": 1}
    if pool.max_per_endpoint is None:
        return {"thresholds": [found]}
    # A connection of HTTP/1.1 serves one request at a time; others wait for it.
    return {"thresholds": [found], "per_host_thresholds": [{"max_connections": pool.max_per_endpoint}]}


def _protocol(pool: Pool) -> dict[str, Data]:
    options: dict[str, Data] = {"http_protocol_options": {"enable_trailers": True}}
    if pool.protocol is not PoolProtocol.HTTP1:
        options = {"http2_protocol_options": HTTP2_LIMITS}
    return {
        "common_http_protocol_options": {
            "idle_timeout": duration(pool.keepalive_idle),  # 0s = no limit
            "max_headers_count": MOST_HEADERS,
            **({} if pool.keepalive else {"max_requests_per_connection": 1}),
        },
        "explicit_http_config": options,
    }


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    counted = {use.field for use in plan.uses_of("pool.connections.keepalive")}
    for pool in plan.pools:
        if pool.keepalive and f"{pool.field}.connections.keepalive" in counted:
            note = "Envoy keeps every idle connection for `keepalive_idle`, however many there are"
            shows = {"pool.connections.keepalive.count": "connections"}
            yield Objection(habit(note, shows), f"{pool.field}.connections.keepalive", "pool.connections.keepalive")
        if pool.max_per_endpoint is not None and pool.protocol is not PoolProtocol.HTTP1:
            note = "Envoy bounds the connections of an endpoint, and one of HTTP/2 serves many requests"
            yield Objection(
                refused(note), f"{pool.field}.connections.max_per_endpoint", "pool.connections.max_per_endpoint"
            )
        if pool.protocol is not PoolProtocol.HTTP1:
            note = (
                "a WebSocket handshake of HTTP/1.1 reaches the endpoint as an extended CONNECT (RFC 8441), and Envoy's "
                "101 has only a Sec-WebSocket-Accept that the endpoint sends"
            )
            yield Objection(habit(note), f"{pool.field}.protocol", "pool.protocol.http2")


CONNECTIONS = Contributor(cluster=_cluster, objections=_objections)
