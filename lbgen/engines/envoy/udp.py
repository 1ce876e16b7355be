"""L4 listeners for UDP: a UDP proxy, with a matcher for sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.filter_chains import (
    DENIED,
    access_predicates,
    all_or_any_source,
    denied_predicate,
    rule_predicates,
)
from lbgen.engines.envoy.predicates import all_of
from lbgen.engines.envoy.protobuf import duration, extension, typed
from lbgen.engines.envoy.upstreams import cluster_name, cluster_options
from lbgen.plan.model import Balance, Forward

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import L4Rule, Listener, Plan

_NO_LIMIT = 86_400_000  # ms
# Envoy drops datagrams above 1500 bytes by default; no datagram is larger than this.
_ANY_SIZE: dict[str, Data] = {"max_rx_datagram_size": 65_535}


def build_udp_proxy(plan: Plan, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    """The fields of a listener for its rules; Envoy drops a datagram that matches none."""
    gate = access_predicates(listener.access)
    found: list[Data] = []
    idle = 0
    hashed = False
    for rule in listener.l4_rules:
        forward = plan.route(rule.route).action
        if not isinstance(forward, Forward):
            raise TypeError(f"{rule.field}: an L4 route forwards")
        idle = max(idle, forward.timeouts.idle or _NO_LIMIT)
        hashed = hashed or any(clusters.pools[t.pool].balance is Balance.SOURCE_HASH for t in forward.targets)
        if (outside := denied_predicate(plan.route(rule.route).access)) is not None:
            found.append(
                {"predicate": all_of(*gate, *rule_predicates(rule), outside), "on_match": _action(DENIED, DENIED)}
            )
        predicate = all_or_any_source([*gate, *rule_predicates(rule)])
        found.append({"predicate": predicate, "on_match": _to(rule, forward, clusters)})
    config: dict[str, Data] = typed(
        "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig",
        {
            "stat_prefix": listener.name,
            "matcher": {"matcher_list": {"matchers": found}},
            "idle_timeout": duration(idle),
            "upstream_socket_config": _ANY_SIZE,
        },
    )
    if hashed:
        config["hash_policies"] = [{"source_ip": True}]
    return {
        "udp_listener_config": {"downstream_socket_config": _ANY_SIZE},
        "listener_filters": [{"name": "envoy.filters.udp_listener.udp_proxy", "typed_config": config}],
    }


def _to(rule: L4Rule, forward: Forward, clusters: Clusters) -> dict[str, Data]:
    (target,) = (target for target in forward.targets if target.weight)
    return _action(rule.id, cluster_name(target.pool, cluster_options(forward), clusters))


def _action(name: str, cluster: str) -> dict[str, Data]:
    return {"action": extension(name, "filters.udp.udp_proxy.v3.Route", {"cluster": cluster})}
