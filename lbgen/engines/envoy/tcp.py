"""L4 listeners -> filter chains with a TCP proxy, one for each rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged
from lbgen.engines.envoy.chains import admitted, chain_matcher, known_name, of_rule
from lbgen.engines.envoy.clusters import cluster_name, demand
from lbgen.engines.envoy.durations import duration
from lbgen.engines.envoy.tls import listener_socket
from lbgen.plan.model import Balance, Forward

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.envoy.clusters import Clusters
    from lbgen.plan.model import L4Rule, Listener, Plan


def l4_chains(plan: Plan, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    """The fields of a listener for its rules; a connection that none takes is closed."""
    if not listener.l4_rules:
        raise ValueError(f"{listener.field}: a listener without rules")
    tls = listener.tls if listener.tls is not None and not listener.tls.passthrough else None
    plain = len(listener.l4_rules) == 1 and listener.access is None and tls is None
    if plain and not of_rule(listener.l4_rules[0]):
        return {"filter_chains": [{"filters": [_tcp(plan, listener, listener.l4_rules[0], clusters)]}]}
    gate = [*admitted(listener.access), *([] if tls is None else [known_name(tls)])]
    socket: dict[str, Data] = {} if tls is None else {"transport_socket": listener_socket(tls, [])}
    return {
        "filter_chain_matcher": chain_matcher((rule.id, [*gate, *of_rule(rule)]) for rule in listener.l4_rules),
        "filter_chains": [
            {"name": rule.id, "filters": [_tcp(plan, listener, rule, clusters)], **socket} for rule in listener.l4_rules
        ],
    }


def _tcp(plan: Plan, listener: Listener, rule: L4Rule, clusters: Clusters) -> Tagged:
    found: dict[str, Data] = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": listener.name,
        "max_connect_attempts": 1,
    }
    forward = plan.route(rule.route).action
    if not isinstance(forward, Forward):
        raise TypeError(f"{rule.field}: an L4 route forwards")
    targets = [target for target in forward.targets if target.weight]
    named: list[dict[str, Data]] = [
        {"name": cluster_name(target.pool, demand(forward), clusters), "weight": target.weight} for target in targets
    ]
    if len(named) == 1:
        found["cluster"] = named[0]["name"]
    else:
        found["weighted_clusters"] = {"clusters": named}
    found["idle_timeout"] = duration(forward.timeouts.idle)
    if any(clusters.pools[target.pool].balance is Balance.SOURCE_HASH for target in targets):
        found["hash_policy"] = [{"source_ip": {}}]
    return Tagged(rule.field, {"name": "tcp", "typed_config": found})
