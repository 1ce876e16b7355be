"""Health checks: Traefik's own of services, and passive ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, Verdict, approximate, habit, refused
from lbgen.engines.traefik.timeouts import duration
from lbgen.engines.traefik.view import CAN, Contributor, http_pools
from lbgen.plan.model import Endpoint, Plan, Pool
from lbgen.plan.policy import ActiveHealth, PassiveHealth

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_ONE_CHECK = habit(
    "one failed check takes an endpoint out, one good check brings it back", {"pool.health.active.routes": "endpoint"}
)
_STATUSES = approximate(
    f"Traefik's checks take 200 to 399 for good, or one status alone{CAN}", {"pool.health.active.routes": "endpoint"}
)
_CONNECT_CHECK = approximate("the check is a GET of /, as Traefik has no checks by a connection alone")
_UNCHECKED_BACKUP = refused("Traefik fails over to backups by active checks alone: give the pool health.active")
_CHECKED = ((200, 299), (200, 399))


def _balancer(pool: Pool, _: Sequence[Endpoint]) -> dict[str, Data]:
    data: dict[str, Data] = {}
    if pool.active is not None:
        data["healthCheck"] = _active(pool.active)
    if pool.passive is not None:
        data["passiveHealthCheck"] = _passive(pool.passive)
    return data


def _active(active: ActiveHealth) -> dict[str, Data]:
    data: dict[str, Data] = {
        "path": active.path or "/",
        "interval": duration(active.interval),
        "timeout": duration(active.timeout),
        "followRedirects": False,
    }
    if active.port is not None:
        data["port"] = active.port
    if len(active.statuses) == 1 and active.statuses[0][0] == active.statuses[0][1]:
        data["status"] = active.statuses[0][0]
    return data


def _passive(passive: PassiveHealth) -> dict[str, Data]:
    return {"failureWindow": duration(passive.eject_for), "maxFailedAttempts": passive.failures}


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for pool in http_pools(plan):
        if pool.active is not None:
            yield Objection(_judge(pool.active), f"{pool.field}.health.active", "pool.health.active")
            continue
        for endpoint in pool.endpoints:
            if endpoint.backup:
                yield Objection(_UNCHECKED_BACKUP, f"{endpoint.field}.backup", "pool.backup")


def _judge(active: ActiveHealth) -> Verdict:
    if active.path is None:
        return _CONNECT_CHECK
    (first, last), *more = active.statuses
    return _STATUSES if more or ((first, last) not in _CHECKED and first != last) else _ONE_CHECK


HEALTH_CHECKS = Contributor(balancer=_balancer, objections=_objections)
