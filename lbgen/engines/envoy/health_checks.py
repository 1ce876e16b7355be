"""Health checks: Envoy's active checks and outlier detection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.protobuf import duration
from lbgen.engines.envoy.view import Cluster, Contributor
from lbgen.plan.model import Endpoint, Pool, PoolProtocol
from lbgen.plan.policy import ActiveHealth, PassiveHealth

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_EJECTION_SWEEP = 100  # ms between two looks at which ejections are over


def _cluster(cluster: Cluster) -> dict[str, Data]:
    pool = cluster.pool
    found: dict[str, Data] = {}
    if pool.active is not None or pool.passive is not None:
        # By default Envoy uses endpoints that are down once half of them are, and delays updates by up to a second.
        found["common_lb_config"] = {"healthy_panic_threshold": {"value": 0}, "update_merge_window": "0s"}
    if pool.active is not None:
        found["health_checks"] = [_active(pool, pool.active)]
    if pool.passive is not None:
        found["outlier_detection"] = _passive(pool.passive)
    return found


def _active(pool: Pool, active: ActiveHealth) -> dict[str, Data]:
    found: dict[str, Data] = {
        "timeout": duration(active.timeout),
        "interval": duration(active.interval),
        # Without traffic Envoy would check once a minute.
        "no_traffic_interval": duration(active.interval),
        "unhealthy_threshold": active.fall,
        "healthy_threshold": active.rise,
    }
    if active.path is None:
        return {**found, "tcp_health_check": {}}
    http: dict[str, Data] = {
        "path": active.path,
        "expected_statuses": [{"start": first, "end": last + 1} for first, last in active.statuses],
        # A status outside this range would mark an endpoint unhealthy at once, whatever the threshold.
        "retriable_statuses": [{"start": 100, "end": 600}],
    }
    if pool.protocol is not PoolProtocol.HTTP1:
        http["codec_client_type"] = "HTTP2"
    return {**found, "http_health_check": http}


def _endpoint(endpoint: Endpoint, pool: Pool) -> dict[str, Data]:
    """Port and host of its check."""
    found: dict[str, Data] = {}
    if pool.active is not None and pool.active.port is not None:
        found["port_value"] = pool.active.port
    if pool.active is not None and pool.active.path is not None:
        found["hostname"] = endpoint.authority
    return {"endpoint": {"health_check_config": found}} if found else {}


def _passive(passive: PassiveHealth) -> dict[str, Data]:
    return {
        # Envoy counts connection failures and response timeouts as 5xx.
        "consecutive_5xx": passive.failures,
        "enforcing_consecutive_5xx": 100,
        "enforcing_success_rate": 0,
        "interval": duration(min(_EJECTION_SWEEP, max(1, passive.eject_for // 10))),
        "base_ejection_time": duration(passive.eject_for),
        # By default each ejection is longer than the one before.
        "max_ejection_time": duration(passive.eject_for),
        "max_ejection_percent": 100,
        "successful_active_health_check_uneject_host": False,
    }


HEALTH_CHECKS = Contributor(cluster=_cluster, endpoint=_endpoint)
