"""L4 listeners: for TCP filter chains with a proxy, one for each rule; for UDP a proxy with a matcher for sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.engines.document import Tagged
from lbgen.engines.envoy.access_log import build_l4_logs
from lbgen.engines.envoy.matching import escape_regex
from lbgen.engines.envoy.predicates import NETWORK_INPUTS, address_in, all_of, any_of, not_, server_name_matches
from lbgen.engines.envoy.protobuf import duration, extension, typed
from lbgen.engines.envoy.tls import build_listener_socket, build_names_pattern
from lbgen.engines.envoy.view import Clusters, Contributor, cluster_options
from lbgen.plan.model import Balance, Forward, L4Rule, Listener, Plan, Protocol
from lbgen.plan.policy import Access
from lbgen.plan.tls import ListenerTls

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.envoy.predicates import Predicate

_DENIED = "denied"  # the chain of connections that a route's access list refuses; others have a number in their names
_NO_LIMIT = 86_400_000  # ms
# Envoy drops datagrams above 1500 bytes by default; no datagram is larger than this.
_ANY_SIZE: dict[str, Data] = {"max_rx_datagram_size": 65_535}


def build_l4_chains(plan: Plan, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    """The fields of a listener for its rules; Envoy closes a connection that matches none."""
    if not listener.l4_rules:
        raise ValueError(f"{listener.field}: a listener without rules")
    tls = listener.tls if listener.tls is not None and not listener.tls.passthrough else None
    guarded = any(plan.route(rule.route).access is not None for rule in listener.l4_rules)
    plain = len(listener.l4_rules) == 1 and listener.access is None and tls is None and not guarded
    if plain and not _rule_predicates(listener.l4_rules[0]):
        return {"filter_chains": [{"filters": [_tcp(plan, listener, listener.l4_rules[0], clusters)]}]}
    gate = [
        *_access_predicates(listener.access, mapped=listener.proxy_protocol),
        *([] if tls is None else [server_name_predicate(tls)]),
    ]
    socket: dict[str, Data] = {} if tls is None else {"transport_socket": build_listener_socket(tls, [])}
    # Envoy closes a connection whose chain has no filters.
    denied: list[Data] = [{"name": _DENIED, "filters": []}] if guarded else []
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
    if (outside := _denied_predicate(plan.route(rule.route).access, mapped=mapped)) is not None:
        yield _DENIED, [*_rule_predicates(rule, mapped=mapped), outside]
    yield rule.id, _rule_predicates(rule, mapped=mapped)


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
        {"name": clusters.name(target.pool, cluster_options(forward)), "weight": target.weight} for target in targets
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


def build_udp_proxy(plan: Plan, listener: Listener, clusters: Clusters) -> dict[str, Data]:
    """The fields of a listener for its rules; Envoy drops a datagram that matches none."""
    gate = _access_predicates(listener.access)
    found: list[Data] = []
    idle = 0
    hashed = False
    for rule in listener.l4_rules:
        forward = plan.route(rule.route).action
        if not isinstance(forward, Forward):
            raise TypeError(f"{rule.field}: an L4 route forwards")
        idle = max(idle, forward.timeouts.idle or _NO_LIMIT)
        hashed = hashed or any(clusters.pools[t.pool].balance is Balance.SOURCE_HASH for t in forward.targets)
        if (outside := _denied_predicate(plan.route(rule.route).access)) is not None:
            found.append(
                {"predicate": all_of(*gate, *_rule_predicates(rule), outside), "on_match": _action(_DENIED, _DENIED)}
            )
        predicate = _all_or_any_source([*gate, *_rule_predicates(rule)])
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
    return _action(rule.id, clusters.name(target.pool, cluster_options(forward)))


def _action(name: str, cluster: str) -> dict[str, Data]:
    return {"action": extension(name, "filters.udp.udp_proxy.v3.Route", {"cluster": cluster})}


def build_chain_matcher(choices: Iterable[tuple[str, list[Predicate]]]) -> dict[str, Data]:
    """The matcher that picks the first chain (by name) whose predicates all hold; Envoy closes other connections."""
    matchers: list[Data] = [
        {"predicate": _all_or_any_source(predicates), "on_match": _chain(name)} for name, predicates in choices
    ]
    return {"matcher_list": {"matchers": matchers}}


def _all_or_any_source(predicates: list[Predicate]) -> Predicate:
    """Holds where all of `predicates` do; without any, for every connection."""
    return all_of(*predicates) if predicates else _any_source()


def server_name_predicate(tls: ListenerTls) -> Predicate:
    """Holds for a handshake without a server name, or with one that a certificate holds."""
    return any_of(not_(server_name_matches(r"\C+")), server_name_matches(build_names_pattern(tls)))


def _rule_predicates(rule: L4Rule, *, mapped: bool = False) -> list[Predicate]:
    """The conditions of an L4 rule; `mapped` see `predicates.cidrs`."""
    found: list[Predicate] = []
    if rule.sni is not None:
        found.append(server_name_matches((r"\C+[.]" if rule.sni.wildcard else "") + escape_regex(rule.sni.name)))
    return [*found, _source_in(rule.sources, mapped=mapped)] if rule.sources else found


def _access_predicates(access: Access | None, *, mapped: bool = False) -> list[Predicate]:
    """The conditions under which a connection is admitted."""
    if access is None:
        return []
    found = [not_(_source_in(access.deny, mapped=mapped))] if access.deny else []
    if access.allow is not None:
        found.append(_source_in(access.allow, mapped=mapped) if access.allow else not_(_any_source()))
    return found


def _denied_predicate(access: Access | None, *, mapped: bool = False) -> Predicate | None:
    """Holds for a connection that is not admitted; None where every one is."""
    found = _access_predicates(access, mapped=mapped)
    return not_(all_of(*found)) if found else None


def _any_source() -> Predicate:
    return _source_in(("0.0.0.0/0", "::/0"))


def _source_in(networks: Iterable[str], *, mapped: bool = False) -> Predicate:
    source = extension("source", f"{NETWORK_INPUTS}.SourceIPInput")
    return address_in(networks, source, "source", mapped=mapped)


def _chain(name: str) -> dict[str, Data]:
    return {"action": {"name": name, "typed_config": typed("google.protobuf.StringValue", {"value": name})}}


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.protocol is Protocol.UDP:
            yield from _udp_objections(plan, listener)


def _udp_objections(plan: Plan, listener: Listener) -> Iterator[Objection]:
    for name in dict.fromkeys(rule.route for rule in listener.l4_rules):
        forward = plan.route(name).action
        if isinstance(forward, Forward) and sum(1 for target in forward.targets if target.weight) > 1:
            note = "Envoy does not split datagrams over pools"
            yield Objection(refused(note), f"{plan.route(name).field}.forward", "listener.l4.udp")
    if listener.max_connections is not None:
        note = "Envoy limits connections, and datagrams have none"
        yield Objection(refused(note), f"{listener.field}.max_connections", "listener.max_connections.l4")


UDP = Contributor(objections=_objections)
