"""Balance of a pool: Envoy's load balancing policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.document import Commented
from lbgen.engines.envoy.protobuf import duration, extension
from lbgen.engines.envoy.view import Cluster, Contributor
from lbgen.plan.model import Balance, Plan, Pool
from lbgen.plan.policy import Key, KeyKind

if TYPE_CHECKING:
    from lbgen.engines.document import Data


def _balance(pool: Pool, *, l4: bool) -> dict[str, Data]:
    """The fields of a cluster that choose an endpoint; at `l4` the TCP proxy has the hash of the peer."""
    match pool.balance:
        case Balance.ROUND_ROBIN:
            if pool.slow_start:
                return _lb_policy("round_robin.v3.RoundRobin", _slow_start(pool))
            return {}  # the default
        case Balance.LEAST_CONNECTIONS:
            scan = Commented("By default Envoy compares two endpoints at random.", "FULL_SCAN")
            return _lb_policy("least_request.v3.LeastRequest", {"selection_method": scan, **_slow_start(pool)})
        case Balance.SOURCE_HASH:
            return {"lb_policy": "MAGLEV"} if l4 else _maglev({"connection_properties": {"source_ip": True}})
        case Balance.RANDOM:
            why = "RANDOM ignores weights; without a hash, Maglev takes a random entry of its weighted table."
            return {"lb_policy": Commented(why, "MAGLEV") if _has_unequal_weights(pool) else "RANDOM"}
        case Balance.HASH:
            if pool.hash_key is None:
                raise ValueError(f"{pool.field}: balance by hash has a key")
            return _maglev(_hash_policy(pool.hash_key))
        case _:
            assert_never(pool.balance)


def _has_unequal_weights(pool: Pool) -> bool:
    return len({(endpoint.backup, endpoint.weight) for endpoint in pool.endpoints if endpoint.weight}) > len(
        {endpoint.backup for endpoint in pool.endpoints if endpoint.weight}
    )


def _maglev(key: dict[str, Data]) -> dict[str, Data]:
    return _lb_policy("maglev.v3.Maglev", {"consistent_hashing_lb_config": {"hash_policy": [key]}})


def _lb_policy(kind: str, config: dict[str, Data]) -> dict[str, Data]:
    policy = extension(kind.partition(".")[0].replace("_", "-"), f"load_balancing_policies.{kind}", config)
    return {"load_balancing_policy": {"policies": [{"typed_extension_config": policy}]}}


def _slow_start(pool: Pool) -> dict[str, Data]:
    if not pool.slow_start:
        return {}
    return {"slow_start_config": {"slow_start_window": duration(pool.slow_start)}}


def _hash_policy(key: Key) -> dict[str, Data]:
    """A request without the key has no hash and goes to any endpoint."""
    match key.kind:
        case KeyKind.HEADER:
            return {"header": {"header_name": key.name}}
        case KeyKind.COOKIE:
            return {"cookie": {"name": key.name}}
        case KeyKind.QUERY:
            return {"query_parameter": {"name": key.name}}
        case KeyKind.CLIENT_IP | KeyKind.ROUTE:
            raise ValueError(f"balance by a hash of {key.kind}")
        case _:
            assert_never(key.kind)


def _cluster(cluster: Cluster) -> dict[str, Data]:
    return _balance(cluster.pool, l4=cluster.is_l4)


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for pool in plan.pools:
        if pool.slow_start and pool.balance not in (Balance.ROUND_ROBIN, Balance.LEAST_CONNECTIONS):
            note = f"Envoy has no slow start with {pool.balance}"
            yield Objection(refused(note), f"{pool.field}.slow_start", "pool.slow_start")
        if pool.slow_start and pool.passive is not None:
            note = "an endpoint gets its full share at once after an ejection by passive checks"
            shows = {"pool.slow_start.after_ejection": "endpoint"}
            yield Objection(habit(note, shows), f"{pool.field}.slow_start", "pool.slow_start")


BALANCING = Contributor(cluster=_cluster, objections=_objections)
