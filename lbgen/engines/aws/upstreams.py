"""Target groups: the endpoints of a pool, how they are balanced and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.aws.view import TARGET_GROUP, attributes, ref, resource
from lbgen.engines.document import Tagged
from lbgen.plan.model import Balance, Pool, PoolProtocol, Protocol
from lbgen.plan.policy import Sticky

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_ALGORITHMS = {
    Balance.ROUND_ROBIN: "round_robin",
    Balance.LEAST_CONNECTIONS: "least_outstanding_requests",
    Balance.RANDOM: "weighted_random",
}
_VERSIONS = {PoolProtocol.HTTP1: "HTTP1", PoolProtocol.HTTP2: "HTTP2", PoolProtocol.GRPC: "GRPC"}
# Bounds that the API sets, in seconds and checks.
INTERVAL, TIMEOUT, THRESHOLD, SLOW_START = (5, 300), (2, 120), (2, 10), (30, 900)
STATUSES = (200, 499)  # that a check of an Application Load Balancer may expect
_STICKY = (1, 604_800)
_DEREGISTRATION = "30"  # seconds in which requests under way may end


def lists_targets(pool: Pool) -> bool:
    """Whether the template has its targets: a target group holds addresses, and whoever knows the address of a name
    registers it."""
    return all(each.is_ip for each in pool.endpoints)


def sticky_seconds(sticky: Sticky) -> int:
    """How long its cookie lasts; there is none that ends with the browser."""
    return _within(sticky.ttl or _STICKY[1], _STICKY)


def target_group(pool: Pool, protocol: Protocol | None, kind: Data) -> Data:
    """The pool as a target group; `protocol` is that of connections, None of requests, `kind` the type of targets."""
    endpoints = [each for each in pool.endpoints if not each.backup]
    properties: dict[str, Data] = {
        "VpcId": ref("VpcId"),
        "TargetType": kind,
        "Protocol": _protocol(pool, protocol),
        "Port": endpoints[0].port,
        **({"ProtocolVersion": _VERSIONS[pool.protocol]} if protocol is None else {}),
        **({"IpAddressType": "ipv6"} if any(":" in each.host for each in endpoints) else {}),
        **_checks(pool, l4=protocol is not None),
    }
    if lists_targets(pool):
        properties["Targets"] = [
            Tagged(each.field, {"Id": each.host, "Port": each.port}) for each in endpoints if each.weight
        ]
    properties["TargetGroupAttributes"] = attributes(_raw(pool, protocol) if protocol is not None else _web(pool))
    return resource(TARGET_GROUP, properties, field=pool.field)


def _protocol(pool: Pool, protocol: Protocol | None) -> str:
    if protocol is not None:
        return "TLS" if pool.tls is not None else str(protocol).upper()
    return "HTTPS" if pool.tls is not None else "HTTP"


def _checks(pool: Pool, *, l4: bool) -> dict[str, Data]:
    """Checks of the topology; without any the plainest that a target group can have, as it always has some."""
    active, is_grpc = pool.active, pool.protocol is PoolProtocol.GRPC
    found: dict[str, Data]
    if l4 and (active is None or active.path is None):
        found = {"HealthCheckProtocol": "TCP"}
    elif active is None or active.path is None:  # any answer that is no failure of the server
        found = {
            "HealthCheckPath": "/AWS.ALB/healthcheck" if is_grpc else "/",
            "Matcher": {"GrpcCode": "0-99"} if is_grpc else {"HttpCode": "200-499"},
        }
    else:
        statuses = ",".join(f"{first}-{last}" if first != last else str(first) for first, last in active.statuses)
        matcher = {"GrpcCode": "0"} if is_grpc else {"HttpCode": statuses}
        found = {"HealthCheckPath": active.path, "Matcher": dict(matcher)}
    if "HealthCheckPath" in found:
        found = {"HealthCheckProtocol": "HTTP" if pool.tls is None else "HTTPS", **found}
    if active is None:
        return found
    interval = _within(active.interval // 1000, INTERVAL)
    return {
        **found,
        "HealthCheckPort": str(active.port) if active.port else "traffic-port",
        "HealthCheckIntervalSeconds": interval,
        # Below the interval, which the API asks for.
        "HealthCheckTimeoutSeconds": min(_within(active.timeout // 1000, TIMEOUT), interval - 1),
        "HealthyThresholdCount": _within(active.rise, THRESHOLD),
        "UnhealthyThresholdCount": _within(active.fall, THRESHOLD),
    }


def _within(value: int, bounds: tuple[int, int]) -> int:
    return min(bounds[1], max(bounds[0], value))


def _raw(pool: Pool, protocol: Protocol) -> dict[str, str]:
    """Endpoints see the load balancer's address, as with the other engines; over UDP that cannot be chosen."""
    found = {"deregistration_delay.timeout_seconds": _DEREGISTRATION}
    if protocol is Protocol.TCP:
        found["preserve_client_ip.enabled"] = "false"
        found["proxy_protocol_v2.enabled"] = str(pool.proxy_protocol == "v2").lower()
    return found


def _web(pool: Pool) -> dict[str, str]:
    found = {
        "deregistration_delay.timeout_seconds": _DEREGISTRATION,
        "load_balancing.algorithm.type": _ALGORITHMS.get(pool.balance, "round_robin"),
    }
    if pool.slow_start:
        found["slow_start.duration_seconds"] = str(_within(pool.slow_start // 1000, SLOW_START))
    if pool.sticky is not None:
        found["stickiness.enabled"] = "true"
        found["stickiness.type"] = "lb_cookie"
        found["stickiness.lb_cookie.duration_seconds"] = str(sticky_seconds(pool.sticky))
    return found
