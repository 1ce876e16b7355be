"""Target groups: the endpoints of a pool, how they are balanced and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged
from lbgen.plan.model import Balance, PoolProtocol, Protocol

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Pool

_ALGORITHMS = {
    Balance.ROUND_ROBIN: "round_robin",
    Balance.LEAST_CONNECTIONS: "least_outstanding_requests",
    Balance.RANDOM: "weighted_random",
}
_VERSIONS = {PoolProtocol.HTTP1: "HTTP1", PoolProtocol.HTTP2: "HTTP2", PoolProtocol.GRPC: "GRPC"}
# Bounds that the API sets.
INTERVAL, TIMEOUT, THRESHOLD = (5, 300), (2, 120), (2, 10)
_DEREGISTRATION = "30"  # seconds in which requests under way may end


def target_group(pool: Pool, protocol: Protocol | None) -> Data:
    """The pool as a target group; `protocol` is that of connections, None of requests."""
    l4 = protocol is not None
    endpoints = [each for each in pool.endpoints if not each.backup]
    properties: dict[str, Data] = {
        "VpcId": {"Ref": "VpcId"},
        "TargetType": "ip",
        "Protocol": _protocol(pool, protocol),
        "Port": endpoints[0].port,
    }
    if not l4:
        properties["ProtocolVersion"] = _VERSIONS[pool.protocol]
    if any(":" in each.host for each in endpoints):
        properties["IpAddressType"] = "ipv6"
    properties |= _checks(pool, l4=l4)
    properties["Targets"] = [
        Tagged(each.field, {"Id": each.host, "Port": each.port}) for each in endpoints if each.weight
    ]
    attributes = _attributes(pool, l4=l4)
    properties["TargetGroupAttributes"] = [{"Key": key, "Value": value} for key, value in attributes.items()]
    return Tagged(pool.field, {"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": properties})


def _protocol(pool: Pool, protocol: Protocol | None) -> str:
    if protocol is not None:
        return "TLS" if pool.tls is not None else str(protocol).upper()
    return "HTTPS" if pool.tls is not None else "HTTP"


def _checks(pool: Pool, *, l4: bool) -> dict[str, Data]:
    """Checks of the topology; without any the plainest that a target group can have, as it always has some."""
    active = pool.active
    if active is None:
        return {"HealthCheckProtocol": "TCP"} if l4 else {"HealthCheckPath": "/", "Matcher": {"HttpCode": "200-499"}}
    found: dict[str, Data] = {
        "HealthCheckPort": str(active.port) if active.port else "traffic-port",
        "HealthCheckIntervalSeconds": _within(active.interval // 1000, INTERVAL),
        "HealthCheckTimeoutSeconds": _within(active.timeout // 1000, TIMEOUT),
        "HealthyThresholdCount": _within(active.rise, THRESHOLD),
        "UnhealthyThresholdCount": _within(active.fall, THRESHOLD),
    }
    if active.path is None:
        return {"HealthCheckProtocol": "TCP", **found} if l4 else {"Matcher": {"HttpCode": "200-499"}, **found}
    statuses = ",".join(f"{first}-{last}" if first != last else str(first) for first, last in active.statuses)
    matcher = {"GrpcCode": "0"} if pool.protocol is PoolProtocol.GRPC else {"HttpCode": statuses}
    kind: dict[str, Data] = {"HealthCheckProtocol": "HTTP"} if l4 else {}
    return {**kind, "HealthCheckPath": active.path, "Matcher": dict(matcher), **found}


def _within(value: int, bounds: tuple[int, int]) -> int:
    return min(bounds[1], max(bounds[0], value))


def _attributes(pool: Pool, *, l4: bool) -> dict[str, str]:
    found = {"deregistration_delay.timeout_seconds": _DEREGISTRATION}
    if l4:
        found["proxy_protocol_v2.enabled"] = str(pool.proxy_protocol == "v2").lower()
        found["preserve_client_ip.enabled"] = "false"  # endpoints see the load balancer, as with the other engines
        return found
    found["load_balancing.algorithm.type"] = _ALGORITHMS.get(pool.balance, "round_robin")
    if pool.slow_start:
        found["slow_start.duration_seconds"] = str(_within(pool.slow_start // 1000, (30, 900)))
    if pool.sticky is not None:
        found["stickiness.enabled"] = "true"
        found["stickiness.type"] = "lb_cookie"
        found["stickiness.lb_cookie.duration_seconds"] = str(_within(pool.sticky.ttl or 604_800, (1, 604_800)))
    return found
