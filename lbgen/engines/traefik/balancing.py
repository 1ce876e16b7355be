"""The choice of an endpoint: strategies of services, hashes, and sticky cookies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.view import CAN, Contributor, http_pools
from lbgen.plan.model import Balance, Endpoint, Forward, Plan, Pool, Route
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_STRATEGIES = {
    Balance.LEAST_CONNECTIONS: "p2c",
    Balance.RANDOM: "p2c",
    Balance.SOURCE_HASH: "hrw",
    Balance.HASH: "hrw",
}

_RANDOM_WEIGHTS = refused(f"Traefik's choice between two random endpoints has no weights{CAN}")
_COMPARED = 2  # endpoints whose requests Traefik compares
_TWO_CHOICES = habit("of more than two endpoints the less busy of two random ones is chosen")


def _balancer(pool: Pool, serving: Sequence[Endpoint]) -> dict[str, Data]:
    return {"strategy": _STRATEGIES[pool.balance]} if pool.balance in _STRATEGIES and len(serving) > 1 else {}


def build_hash_key(pool: Pool) -> dict[str, Data]:
    """The middleware that gives the key to Traefik's hash; empty where that is the client's address, or none."""
    key = pool.hash_key
    if key is None or key.kind is KeyKind.CLIENT_IP:
        return {}
    return use_plugin("hashBy", {str(key.kind): key.name})


def _by_client(plan: Plan, route: Route) -> bool:
    targets = route.action.targets if isinstance(route.action, Forward) else ()
    pools = [plan.pool(target.pool) for target in targets]
    return any(
        pool.balance is Balance.SOURCE_HASH or (pool.hash_key is not None and pool.hash_key.kind is KeyKind.CLIENT_IP)
        for pool in pools
    )


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for pool in http_pools(plan):
        serving = [each for each in pool.endpoints if each.weight]
        if pool.balance is Balance.LEAST_CONNECTIONS and len(serving) > _COMPARED:
            yield Objection(_TWO_CHOICES, f"{pool.field}.balance", "pool.balance.least_connections")
        if pool.balance is Balance.RANDOM and len({each.weight for each in serving}) > 1:
            yield Objection(_RANDOM_WEIGHTS, f"{pool.field}.balance", "pool.balance.random")


def _sticky(pool: Pool, _: Sequence[Endpoint]) -> dict[str, Data]:
    sticky = pool.sticky
    if sticky is None:
        return {}
    data: dict[str, Data] = {"name": sticky.cookie, "path": "/", "httpOnly": True, "sameSite": "lax"}
    if sticky.secure:
        data["secure"] = True
    if sticky.ttl is not None:
        data["maxAge"] = sticky.ttl
    return {"sticky": {"cookie": data}}


BALANCING = Contributor(by_client=_by_client, balancer=_balancer, objections=_objections)
STICKY = Contributor(balancer=_sticky)
