"""Health of endpoints as Envoy's list of clusters reports it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lbgen.engines.envoy.view import pool_name
from lbgen.engines.health import NO_ADDRESS, Condition, State

_BY_SEVERITY = (State.UP, State.DRAINING, State.EJECTED, State.DOWN)


def read_health(pools: Mapping[str, Sequence[str]], answer: str) -> dict[tuple[str, int], Condition]:
    """The condition of each endpoint, by pool and index. A pool may have several clusters, each with its own checks:
    the worst condition counts."""
    try:
        clusters = json.loads(answer).get("cluster_statuses", ())
    except (ValueError, AttributeError):
        return {}
    found: dict[tuple[str, int], Condition] = {}
    for cluster in clusters:
        pool = pool_name(cluster["name"])
        if pool not in pools:  # one that lbgen or the topology's own lines add; its hosts may have no socket address
            continue
        hosts: dict[str, list[Any]] = {}
        for host in cluster.get("host_statuses", ()):
            for name in _names(host):
                hosts.setdefault(name, []).append(host)
        for place, address in enumerate(pools[pool]):
            told = _combine([_condition(host) for host in hosts.get(address, ())])
            before = found.get((pool, place))
            if before is None or _BY_SEVERITY.index(told.state) > _BY_SEVERITY.index(before.state):
                found[pool, place] = told
    return found


def _names(host: Mapping[str, Any]) -> set[str]:
    """The names that a topology may use for the host: its address, or the name it was resolved from, each with the
    port."""
    at = host["address"]["socket_address"]
    address = f"[{at['address']}]" if ":" in at["address"] else at["address"]
    named = host.get("hostname") or address
    return {f"{address}:{at['port_value']}", f"{named}:{at['port_value']}"}


def _condition(host: Mapping[str, Any]) -> Condition:
    health = host.get("health_status", {})
    if health.get("failed_active_health_check"):
        return Condition(State.DOWN, reason="its checks fail")
    if health.get("failed_outlier_check"):
        return Condition(State.EJECTED)
    return Condition(State.DRAINING if health.get("eds_health_status") == "DRAINING" else State.UP)


def _combine(every: Sequence[Condition]) -> Condition:
    """The condition of a name with several addresses: it is up while one of them is."""
    if not every:
        return NO_ADDRESS
    best = min(every, key=lambda each: _BY_SEVERITY.index(each.state))
    out = sum(each.state is not best.state for each in every)
    return Condition(best.state, reason=f"{out} of its {len(every)} addresses are not") if out else best
