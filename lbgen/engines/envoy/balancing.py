"""Balance of a pool: Envoy's load balancing policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Commented
from lbgen.engines.envoy.protobuf import duration
from lbgen.plan.model import Balance
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Pool
    from lbgen.plan.policy import Key

_POLICIES = "envoy.extensions.load_balancing_policies"


def build_balancing(pool: Pool, *, l4: bool) -> dict[str, Data]:
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
    name = kind.partition(".")[0].replace("_", "-")
    typed: dict[str, Data] = {"@type": f"type.googleapis.com/{_POLICIES}.{kind}", **config}
    return {"load_balancing_policy": {"policies": [{"typed_extension_config": {"name": name, "typed_config": typed}}]}}


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
