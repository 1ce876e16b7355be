"""Pools as Envoy clusters: one for each set of options that routes use and Envoy keeps in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from lbgen.engines.document import Tagged, comment_on
from lbgen.engines.envoy.balancing import build_balancing
from lbgen.engines.envoy.comments import CLUSTER_NOTES
from lbgen.engines.envoy.health_checks import build_check_address, build_health_checks
from lbgen.engines.envoy.mirrors import build_mirror_filters
from lbgen.engines.envoy.protobuf import duration, extension, typed
from lbgen.engines.envoy.sticky import build_answered_filter
from lbgen.engines.envoy.timeouts import MOST_HEADERS
from lbgen.engines.envoy.transport_sockets import build_endpoint_metadata, build_pool_socket, has_socket_per_endpoint
from lbgen.plan.model import Forward, Mode, PoolProtocol
from lbgen.plan.pool import KEEPALIVE_IDLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.document import Data
    from lbgen.plan.model import Endpoint, Plan, Pool, Route

_NO_LIMIT_CONNECT = 86_400_000  # ms; Envoy requires a limit, and the kernel gives up long before
_MOST = 50_000  # as many as clients may connect, see static.py
BUFFER_LIMIT = 32_768  # bytes that wait at each side of a connection; Envoy's own limit of 1 MiB is for trusted peers
# For peers that are not trusted, as Envoy's guide for edge proxies says.
HTTP2_LIMITS: dict[str, Data] = {
    "max_concurrent_streams": 100,
    "initial_stream_window_size": 65_536,
    "initial_connection_window_size": 1_048_576,
}
_CODEC: dict[str, Data] = extension("codec", "filters.http.upstream_codec.v3.UpstreamCodec")
# Percent. By default Envoy shifts load to backups once fewer than 100/1.4 percent of the others are up.
_BACKUP_LAST = 100_000_000
_HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


class ClusterOptions(NamedTuple):
    """Options of a route that belong to the cluster: connect timeout in ms, the percentage of requests that may be
    retries, and whether the requests are copies."""

    connect: int
    budget: float | None = None
    mirrored: bool = False

    def __str__(self) -> str:
        budget = "" if self.budget is None else f"-{self.budget:g}%"
        return f"{self.connect}ms{budget}{'-copies' if self.mirrored else ''}"


class Clusters(Struct, frozen=True, eq=False):
    """`options`: those of each pool, by connect timeout. `l4`, `l7`: pools of L4 and of L7 routes."""

    pools: dict[str, Pool]
    options: dict[str, tuple[ClusterOptions, ...]]
    l4: frozenset[str]
    l7: frozenset[str]

    def target_pools(self, route: Route) -> list[Pool]:
        """The pools to which the route forwards, each once."""
        targets = route.action.targets if isinstance(route.action, Forward) else ()
        if len(targets) == 1:
            return [self.pools[targets[0].pool]]
        return [self.pools[name] for name in dict.fromkeys(target.pool for target in targets)]


def plan_clusters(plan: Plan) -> Clusters:
    """The clusters that the plan needs."""
    found: dict[str, set[ClusterOptions]] = {pool.name: set() for pool in plan.pools}
    for route in plan.routes:
        if isinstance(route.action, Forward):
            options = cluster_options(route.action)
            for target in route.action.targets:
                found[target.pool].add(options)
            for mirror in route.action.mirrors:
                found[mirror.pool].add(ClusterOptions(route.action.timeouts.connect, mirrored=True))
    streams = {rule.route for each in plan.listeners if each.mode is Mode.L4 for rule in each.l4_rules}
    l4, l7 = (
        _used_pools(route for route in plan.routes if (route.name in streams) is below) for below in (True, False)
    )
    ordered = {name: tuple(sorted(every, key=_sort_key)) for name, every in found.items()}
    return Clusters({pool.name: pool for pool in plan.pools}, ordered, l4, l7)


def _used_pools(routes: Iterable[Route]) -> frozenset[str]:
    actions = [route.action for route in routes if isinstance(route.action, Forward)]
    targets = {target.pool for action in actions for target in action.targets}
    return frozenset(targets | {mirror.pool for action in actions for mirror in action.mirrors})


def _sort_key(options: ClusterOptions) -> tuple[int, float, bool]:
    return options.connect, -1.0 if options.budget is None else options.budget, options.mirrored


def cluster_options(forward: Forward) -> ClusterOptions:
    """The options of a route for the pools to which it forwards."""
    return ClusterOptions(forward.timeouts.connect, None if forward.retries is None else forward.retries.budget)


def cluster_name(pool: str, options: ClusterOptions, clusters: Clusters) -> str:
    """The name of the cluster for `pool` with these options; the pool's own name if there is only one."""
    return pool if len(clusters.options[pool]) < 2 else f"{pool}@{options}"


def pool_name(cluster: str) -> str:
    """The pool of a cluster."""
    return cluster.partition("@")[0]


def build_clusters(plan: Plan, clusters: Clusters) -> list[Tagged]:
    """All clusters, in the order of the pools; an unused pool has none."""
    found = [(pool, options) for pool in plan.pools for options in clusters.options[pool.name]]
    explained: set[str] = set()
    built = []
    for pool, options in found:
        cluster = _cluster(pool, options, clusters, plan.resolvers)
        notes = {key: note for key, note in CLUSTER_NOTES.items() if key in cluster and key not in explained}
        if pool.keepalive_idle != KEEPALIVE_IDLE:
            notes.pop("typed_extension_protocol_options", None)
        explained.update(notes)
        built.append(Tagged(pool.field, comment_on(cluster, notes)))
    return built


def _cluster(pool: Pool, options: ClusterOptions, clusters: Clusters, resolvers: tuple[str, ...]) -> dict[str, Data]:
    name = cluster_name(pool.name, options, clusters)
    named = any(not endpoint.is_ip for endpoint in pool.endpoints)
    lb_config: dict[str, Data] = {}
    if pool.active is not None or pool.passive is not None or any(not endpoint.weight for endpoint in pool.endpoints):
        # By default Envoy uses endpoints that are down once half of them are.
        lb_config["healthy_panic_threshold"] = {"value": 0}
    if pool.active is not None or pool.passive is not None:
        # By default Envoy delays updates of endpoints by up to a second.
        lb_config["update_merge_window"] = "0s"
    if pool.sticky is not None:
        # A drained endpoint keeps its sticky clients.
        lb_config["override_host_status"] = {"statuses": ["UNKNOWN", "HEALTHY", "DEGRADED", "DRAINING"]}
    found: dict[str, Data] = {
        "name": name,
        **(_dns(resolvers) if named else {"type": "STATIC"}),
        "connect_timeout": duration(options.connect or _NO_LIMIT_CONNECT),
        **build_balancing(pool, l4=pool.name in clusters.l4),
        **({"common_lb_config": lb_config} if lb_config else {}),
        "per_connection_buffer_limit_bytes": BUFFER_LIMIT,
        "circuit_breakers": _breakers(pool, options),
        **build_health_checks(pool),
        **build_pool_socket(pool),
        **(
            {"typed_extension_protocol_options": {_HTTP: _http_options(pool, options)}}
            if pool.name in clusters.l7
            else {}
        ),
    }
    return {**found, "load_assignment": {"cluster_name": name, **_assignment(pool)}}


def _breakers(pool: Pool, options: ClusterOptions) -> dict[str, Data]:
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


def _http_options(pool: Pool, options: ClusterOptions) -> dict[str, Data]:
    own = {**_protocol(pool), **_upstream_filters(pool, options)}
    return typed("envoy.extensions.upstreams.http.v3.HttpProtocolOptions", own)


def _upstream_filters(pool: Pool, options: ClusterOptions) -> dict[str, Data]:
    found = [
        *(build_mirror_filters() if options.mirrored else ()),
        *([build_answered_filter()] if pool.sticky is not None else ()),
    ]
    return {"http_filters": [*found, _CODEC]} if found else {}


def _assignment(pool: Pool) -> dict[str, Data]:
    own = has_socket_per_endpoint(pool)

    def of(*, backup: bool) -> Iterator[Tagged]:
        for each in pool.endpoints:
            if each.backup is backup:
                yield Tagged(each.field, {**_endpoint(each, pool), **(build_endpoint_metadata(each) if own else {})})

    backups = list(of(backup=True))
    if not backups:
        return {"endpoints": [{"lb_endpoints": list(of(backup=False))}]}
    groups: list[Data] = [{"lb_endpoints": list(of(backup=False))}, {"priority": 1, "lb_endpoints": backups}]
    return {"endpoints": groups, "policy": {"overprovisioning_factor": _BACKUP_LAST}}


def _dns(resolvers: tuple[str, ...]) -> dict[str, Data]:
    """A cluster type that resolves names every 5 s and treats each address as an endpoint."""
    dns: dict[str, Data] = typed(
        "envoy.extensions.clusters.dns.v3.DnsCluster",
        {
            "dns_refresh_rate": "5s",
            "dns_failure_refresh_rate": {"base_interval": "1s", "max_interval": "5s"},
            "dns_lookup_family": "V4_PREFERRED",
        },
    )
    if resolvers:
        dns["typed_dns_resolver_config"] = extension(
            "envoy.network.dns_resolver.cares",
            "network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            {
                "resolvers": [{"socket_address": _resolver(each)} for each in resolvers],
                "dns_resolver_options": {"no_default_search_domain": True},
            },
        )
    return {
        "cluster_type": {"name": "envoy.clusters.dns", "typed_config": dns},
        # Listeners must not wait for a name that does not resolve.
        "wait_for_warm_on_init": False,
        # An address that was removed from the name may belong to another healthy host by now.
        "ignore_health_on_host_removal": True,
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


def _endpoint(endpoint: Endpoint, pool: Pool) -> dict[str, Data]:
    address: dict[str, Data] = {"address": {"socket_address": {"address": endpoint.host, "port_value": endpoint.port}}}
    found: dict[str, Data] = {"endpoint": {**address, **build_check_address(endpoint, pool)}}
    if endpoint.weight > 1:
        found["load_balancing_weight"] = endpoint.weight
    elif not endpoint.weight:
        found["health_status"] = "DRAINING"  # Envoy does not accept a weight of 0
    return found
