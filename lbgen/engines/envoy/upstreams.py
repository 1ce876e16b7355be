"""Pools as Envoy clusters: one for each set of options that routes use and Envoy keeps in the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged, comment_on
from lbgen.engines.envoy.connections import HTTP_OPTIONS
from lbgen.engines.envoy.features import FEATURES
from lbgen.engines.envoy.jwt import asked_clusters
from lbgen.engines.envoy.protobuf import arrange, duration, extension, merge, typed
from lbgen.engines.envoy.view import Cluster, ClusterOptions, Clusters, cluster_options
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Endpoint, Forward, Mode, Plan, Pool, Route
from lbgen.plan.pool import KEEPALIVE_IDLE

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_NO_LIMIT_CONNECT = 86_400_000  # ms; Envoy requires a limit, and the kernel gives up long before
BUFFER_LIMIT = 32_768  # bytes that wait at each side of a connection
BUFFER_NOTE = "What waits for a slow peer on each side; Envoy's own limit of 1 MiB is for peers that are trusted."
_CODEC: dict[str, Data] = extension("codec", "filters.http.upstream_codec.v3.UpstreamCodec")
# Percent. By default Envoy shifts load to backups once fewer than 100/1.4 percent of the others are up.
_BACKUP_LAST = 100_000_000
# The order of a cluster's fields before others, and after them.
_FIRST = (
    *("name", "type", "cluster_type", "wait_for_warm_on_init", "ignore_health_on_host_removal", "connect_timeout"),
    *("lb_policy", "load_balancing_policy", "common_lb_config", "per_connection_buffer_limit_bytes"),
    *("circuit_breakers", "health_checks", "outlier_detection"),
)
_LAST = ("typed_extension_protocol_options", "load_assignment")
# By field of the first cluster.
_NOTES: Mapping[str, str] = {
    "per_connection_buffer_limit_bytes": BUFFER_NOTE,
    "circuit_breakers": "As many as clients may connect; by default Envoy answers 503 above 1024, and retries 3.",
    "typed_extension_protocol_options": "An unused connection is closed before most servers would close it.",
}


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
        if isinstance(route.auth, ForwardAuth):
            found[route.auth.pool].add(ClusterOptions(route.auth.connect, auth=True))
    for pool, asked in asked_clusters(route.auth for route in plan.routes):
        found[pool].add(asked)
    streams = {rule.route for each in plan.listeners if each.mode is Mode.L4 for rule in each.l4_rules}
    l4, l7 = (
        _used_pools(route for route in plan.routes if (route.name in streams) is below) for below in (True, False)
    )
    ordered = {name: tuple(sorted(every, key=_sort_key)) for name, every in found.items()}
    return Clusters({pool.name: pool for pool in plan.pools}, ordered, l4, l7)


def _used_pools(routes: Iterable[Route]) -> frozenset[str]:
    routes = list(routes)
    actions = [route.action for route in routes if isinstance(route.action, Forward)]
    targets = {target.pool for action in actions for target in action.targets}
    asked = {route.auth.pool for route in routes if isinstance(route.auth, ForwardAuth)}
    asked |= {pool for pool, _ in asked_clusters(route.auth for route in routes)}
    return frozenset(targets | asked | {mirror.pool for action in actions for mirror in action.mirrors})


def _sort_key(options: ClusterOptions) -> tuple[int, float, bool, bool]:
    return options.connect, -1.0 if options.budget is None else options.budget, options.mirrored, options.auth


def build_clusters(plan: Plan, clusters: Clusters) -> list[Tagged]:
    """All clusters, in the order of the pools; an unused pool has none."""
    found = [(pool, options) for pool in plan.pools for options in clusters.options[pool.name]]
    explained: set[str] = set()
    built = []
    for pool, options in found:
        view = Cluster(plan, pool, options, pool.name in clusters.l4, pool.name in clusters.l7)
        cluster = _build_cluster(view, clusters.name(pool.name, options))
        notes = {key: note for key, note in _NOTES.items() if key in cluster and key not in explained}
        if pool.keepalive_idle != KEEPALIVE_IDLE:
            notes.pop("typed_extension_protocol_options", None)
        explained.update(notes)
        built.append(Tagged(pool.field, comment_on(cluster, notes)))
    return built


def _build_cluster(view: Cluster, name: str) -> dict[str, Data]:
    pool = view.pool
    named = any(not endpoint.is_ip for endpoint in pool.endpoints)
    found: dict[str, Data] = {
        "name": name,
        **(_dns(view.plan.resolvers) if named else {"type": "STATIC"}),
        "connect_timeout": duration(view.options.connect or _NO_LIMIT_CONNECT),
        "per_connection_buffer_limit_bytes": BUFFER_LIMIT,
        "load_assignment": {"cluster_name": name, **_assignment(pool)},
    }
    if any(not endpoint.weight for endpoint in pool.endpoints):
        # By default Envoy uses endpoints that are drained once half of them are.
        found["common_lb_config"] = {"healthy_panic_threshold": {"value": 0}}
    if filters := [one for each in FEATURES if each.upstream_filters for one in each.upstream_filters(view)]:
        options: Data = {HTTP_OPTIONS: {"http_filters": [*filters, _CODEC]}}
        found["typed_extension_protocol_options"] = options
    return arrange(merge([*(each.cluster(view) for each in FEATURES if each.cluster), found]), _FIRST, _LAST)


def _assignment(pool: Pool) -> dict[str, Data]:
    def of(*, backup: bool) -> list[Data]:
        return [Tagged(each.field, _endpoint(each, pool)) for each in pool.endpoints if each.backup is backup]

    groups: list[Data] = [{"lb_endpoints": of(backup=False)}]
    if not (backups := of(backup=True)):
        return {"endpoints": groups}
    groups.append({"priority": 1, "lb_endpoints": backups})
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
    address: Data = {"socket_address": {"address": endpoint.host, "port_value": endpoint.port}}
    found: dict[str, Data] = {"endpoint": {"address": address}}
    if endpoint.weight > 1:
        found["load_balancing_weight"] = endpoint.weight
    elif not endpoint.weight:
        found["health_status"] = "DRAINING"  # Envoy does not accept a weight of 0
    return merge([found, *(each.endpoint(endpoint, pool) for each in FEATURES if each.endpoint)])
