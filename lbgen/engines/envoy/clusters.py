"""Pools -> Envoy clusters, one for each connect time that routes ask of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Tagged
from lbgen.plan.model import Balance, Forward
from lbgen.records import record

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Endpoint, Plan, Pool

_NO_LIMIT_CONNECT = 86_400_000  # ms; Envoy knows no endless one, and the kernel gives up long before
_NO_LIMIT = 1_000_000_000
_KEPT_FOR = "60s"  # how long an idle connection to an endpoint is kept


@record
class Clusters:
    """`times`: the connect times in ms that routes ask of each pool, ascending."""

    pools: dict[str, Pool]
    times: dict[str, tuple[int, ...]]


def clusters_of(plan: Plan) -> Clusters:
    """Which clusters the plan needs."""
    times: dict[str, set[int]] = {pool.name: set() for pool in plan.pools}
    for route in plan.routes:
        if isinstance(route.action, Forward):
            for target in route.action.targets:
                times[target.pool].add(route.action.timeouts.connect)
    return Clusters({pool.name: pool for pool in plan.pools}, {name: tuple(sorted(t)) for name, t in times.items()})


def cluster_name(pool: str, connect: int, clusters: Clusters) -> str:
    """The cluster for `pool` with that connect time in ms; the bare pool name when there is only one."""
    return pool if len(clusters.times[pool]) < 2 else f"{pool}@{connect}ms"


def duration(milliseconds: int) -> str:
    """Milliseconds as a protobuf duration."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds}.{rest:03d}s" if rest else f"{seconds}s"


def build_clusters(plan: Plan, clusters: Clusters) -> list[Tagged]:
    """All clusters, in the order of the pools; a pool that no route uses has none."""
    return [
        Tagged(pool.field, _cluster(pool, connect, clusters, plan.resolvers))
        for pool in plan.pools
        for connect in clusters.times[pool.name]
    ]


def _cluster(pool: Pool, connect: int, clusters: Clusters, resolvers: tuple[str, ...]) -> dict[str, Data]:
    name = cluster_name(pool.name, connect, clusters)
    named = any(not endpoint.is_ip for endpoint in pool.endpoints)
    found: dict[str, Data] = {
        "name": name,
        **(_dns(resolvers) if named else {"type": "STATIC"}),
        "connect_timeout": duration(connect or _NO_LIMIT_CONNECT),
        **_balance(pool),
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        # Envoy would answer 503 above 1024 connections or requests.
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": _NO_LIMIT,
                    "max_pending_requests": _NO_LIMIT,
                    "max_requests": _NO_LIMIT,
                    "max_retries": _NO_LIMIT,
                }
            ]
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "common_http_protocol_options": {
                    "idle_timeout": _KEPT_FOR,
                    **({} if pool.keepalive else {"max_requests_per_connection": 1}),
                },
                "explicit_http_config": {"http_protocol_options": {}},
            }
        },
    }
    endpoints = [Tagged(endpoint.field, _endpoint(endpoint)) for endpoint in pool.endpoints]
    found["load_assignment"] = {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}
    return found


def _balance(pool: Pool) -> dict[str, Data]:
    match pool.balance:
        case Balance.ROUND_ROBIN:
            return {"lb_policy": "ROUND_ROBIN"}
        case Balance.LEAST_CONNECTIONS:
            return {
                "load_balancing_policy": {
                    "policies": [
                        {
                            "typed_extension_config": {
                                "name": "least-request",
                                "typed_config": {
                                    "@type": "type.googleapis.com/envoy.extensions.load_balancing_policies."
                                    "least_request.v3.LeastRequest",
                                    # The default compares two endpoints at random.
                                    "selection_method": "FULL_SCAN",
                                },
                            }
                        }
                    ]
                }
            }
        case Balance.SOURCE_HASH:
            return {"lb_policy": "MAGLEV"}
        case Balance.RANDOM:
            return {"lb_policy": "RANDOM"}
        case Balance.HASH:
            raise ValueError("balance by hash has no verdict that renders")
        case _:
            assert_never(pool.balance)


def _dns(resolvers: tuple[str, ...]) -> dict[str, Data]:
    """A cluster type that resolves names again every 5 s, each address being an endpoint."""
    dns: dict[str, Data] = {
        "@type": "type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster",
        "dns_refresh_rate": "5s",
        "dns_failure_refresh_rate": {"base_interval": "1s", "max_interval": "5s"},
        "dns_lookup_family": "V4_PREFERRED",
    }
    if resolvers:
        dns["typed_dns_resolver_config"] = {
            "name": "envoy.network.dns_resolver.cares",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
                "resolvers": [{"socket_address": _resolver(each)} for each in resolvers],
                "dns_resolver_options": {"no_default_search_domain": True},
            },
        }
    return {
        "cluster_type": {"name": "envoy.clusters.dns", "typed_config": dns},
        # A name that does not resolve must not keep the listeners waiting.
        "wait_for_warm_on_init": False,
    }


def _resolver(text: str) -> dict[str, Data]:
    """`10.0.0.53`, `10.0.0.53:5353`, `fd00::53` or `[fd00::53]:5353`."""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    return {"address": host, "port_value": int(port or 53)}


def _endpoint(endpoint: Endpoint) -> dict[str, Data]:
    found: dict[str, Data] = {
        "endpoint": {"address": {"socket_address": {"address": endpoint.host, "port_value": endpoint.port}}}
    }
    if endpoint.weight:
        found["load_balancing_weight"] = endpoint.weight
    else:
        found["health_status"] = "DRAINING"  # a weight of 0 is not valid
    return found
