"""L4 listeners: filter chains with a TCP proxy, one for each rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged
from lbgen.engines.envoy.access_log import build_l4_logs
from lbgen.engines.envoy.filter_chains import (
    DENIED,
    access_predicates,
    build_chain_matcher,
    denied_predicate,
    rule_predicates,
    server_name_predicate,
)
from lbgen.engines.envoy.protobuf import duration, typed
from lbgen.engines.envoy.tls import build_listener_socket
from lbgen.engines.envoy.upstreams import cluster_name, cluster_options
from lbgen.plan.model import Balance, Forward

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.predicates import Predicate
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import L4Rule, Listener, Plan


def build_l4_chains(plan: Plan, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    """The fields of a listener for its rules; Envoy closes a connection that matches none."""
    if not listener.l4_rules:
        raise ValueError(f"{listener.field}: a listener without rules")
    tls = listener.tls if listener.tls is not None and not listener.tls.passthrough else None
    guarded = any(plan.route(rule.route).access is not None for rule in listener.l4_rules)
    plain = len(listener.l4_rules) == 1 and listener.access is None and tls is None and not guarded
    if plain and not rule_predicates(listener.l4_rules[0]):
        return {"filter_chains": [{"filters": [_tcp(plan, listener, listener.l4_rules[0], clusters)]}]}
    gate = [
        *access_predicates(listener.access, mapped=listener.proxy_protocol),
        *([] if tls is None else [server_name_predicate(tls)]),
    ]
    socket: dict[str, Data] = {} if tls is None else {"transport_socket": build_listener_socket(tls, [])}
    # Envoy closes a connection whose chain has no filters.
    denied: list[Data] = [{"name": DENIED, "filters": []}] if guarded else []
    return {
        "filter_chain_matcher": build_chain_matcher(
            (chain, [*gate, *predicates])
            for rule in listener.l4_rules
            for chain, predicates in _chain_choices(plan, rule, mapped=listener.proxy_protocol)
        ),
        "filter_chains": [
            *({"name": r.id, "filters": [_tcp(plan, listener, r, clusters)], **socket} for r in listener.l4_rules),
            *denied,
        ],
    }


def _chain_choices(plan: Plan, rule: L4Rule, *, mapped: bool) -> Iterator[tuple[str, list[Predicate]]]:
    """The chain of a rule; before it the chain that denies clients by the route's access list, so that no later rule
    takes them."""
    if (outside := denied_predicate(plan.route(rule.route).access, mapped=mapped)) is not None:
        yield DENIED, [*rule_predicates(rule, mapped=mapped), outside]
    yield rule.id, rule_predicates(rule, mapped=mapped)


def _tcp(plan: Plan, listener: Listener, rule: L4Rule, clusters: Clusters) -> Tagged:
    found: dict[str, Data] = typed(
        "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        {"stat_prefix": listener.name},
    )
    forward = plan.route(rule.route).action
    if not isinstance(forward, Forward):
        raise TypeError(f"{rule.field}: an L4 route forwards")
    targets = [target for target in forward.targets if target.weight]
    named: list[dict[str, Data]] = [
        {"name": cluster_name(target.pool, cluster_options(forward), clusters), "weight": target.weight}
        for target in targets
    ]
    if len(named) == 1:
        found["cluster"] = named[0]["name"]
    else:
        found["weighted_clusters"] = {"clusters": named}
    if listener.logs:
        found["access_log"] = build_l4_logs(listener)
    found["idle_timeout"] = duration(forward.timeouts.idle)
    if any(clusters.pools[target.pool].balance is Balance.SOURCE_HASH for target in targets):
        found["hash_policy"] = [{"source_ip": {}}]
    return Tagged(rule.field, {"name": "tcp", "typed_config": found})
