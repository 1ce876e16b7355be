"""Weights of endpoints on TCP routes; where endpoints are checked, `lbgen agent` rewrites them while Traefik runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lbgen.engines.agent_spec import AgentSpec, checked_pools
from lbgen.engines.api import RenderedFile
from lbgen.engines.traefik import names
from lbgen.engines.yaml_writer import dump
from lbgen.plan.model import Forward, Mode, Plan, Pool, Protocol, Route

if TYPE_CHECKING:
    from lbgen.engines.document import Data

FILE = "dynamic/tcp-shares.yaml"
_HEADER = "Weights of checked TCP endpoints for Traefik, written by lbgen; `lbgen agent` rewrites them."

# JSON data: [weight of the target, name of the pool, [[service, endpoint, weight, is a backup], ...]].
Group = list[Any]


def service_name(route: Route) -> str:
    """The name of a route's service."""
    return f"route-{names.escape(route.name)}"


def group_endpoints(plan: Plan, route: Route) -> list[Group]:
    """The pools of a route, with a service for each endpoint."""
    found: list[Group] = []
    if isinstance(route.action, Forward):
        for target in route.action.targets:
            if target.weight:
                pool, end = plan.pool(target.pool), f"{service_name(route)}-{names.escape(target.pool)}"
                members = [[f"{i}-{end}", e.authority, e.weight, e.backup] for i, e in enumerate(pool.endpoints)]
                found.append([target.weight, pool.name, members])
    return found


def compute_weights(
    name: str, groups: Sequence[Group], shares: Mapping[str, Mapping[str, int]]
) -> list[tuple[str, int]]:
    """The services of the route's service `name` and their weights. Those of a pool share its target's weight; without
    any, a service that closes connections has it."""
    up = [
        (weight, _available(members, shares.get(pool, {})) or [(f"{name}-closed", 1)])
        for weight, pool, members in groups
    ]
    every = 1
    for _, members in up:
        every *= sum(weight for _, weight in members)
    return [
        (child, weight * target * every // sum(each for _, each in members) if len(up) > 1 else weight)
        for target, members in up
        for child, weight in members
    ]


def _available(members: Sequence[Sequence[Any]], shares: Mapping[str, int]) -> list[tuple[str, int]]:
    """The services that are up; backups when no other is."""
    for wanted in (False, True):
        found = [(c, weight) for c, endpoint, weight, backup in members if backup is wanted and shares.get(endpoint, 1)]
        if found := [each for each in found if each[1]]:
            return found
    return []


def find_checked_pools(plan: Plan) -> tuple[Pool, ...]:
    """The pools whose endpoints the agent checks: Traefik's own checks of TCP servers have no fall and rise."""
    used = {group[1] for route in _routes(plan) for group in group_endpoints(plan, route)}
    return tuple(pool for pool in plan.pools if pool.active is not None and pool.name in used)


def has_agent_weights(plan: Plan, route: Route) -> bool:
    """Whether the agent's file has the weights of a route."""
    names = {pool.name for pool in find_checked_pools(plan)}
    return any(group[1] in names for group in group_endpoints(plan, route))


def build_files(plan: Plan) -> tuple[RenderedFile, ...]:
    """The file of weights with every endpoint up, and the agent's specification; none without checks."""
    pools = find_checked_pools(plan)
    if not pools:
        return ()
    steering = {
        service_name(route): group_endpoints(plan, route) for route in _routes(plan) if has_agent_weights(plan, route)
    }
    # No signal: Traefik watches the file.
    return _file(steering, {}), AgentSpec("traefik", "traefik", "", "", checked_pools(pools), steering).file()


def build_weights_file(steering: Mapping[str, Any], shares: Mapping[str, Mapping[str, int]]) -> Mapping[str, str]:
    """The file with these weights; see `lbgen.engines.agent_spec.Steered`."""
    return {FILE: _file(steering, shares).text} if steering else {}


def _file(steering: Mapping[str, Any], shares: Mapping[str, Mapping[str, int]]) -> RenderedFile:
    services: dict[str, Data] = {
        name: {"weighted": {"services": [{"name": c, "weight": w} for c, w in compute_weights(name, groups, shares)]}}
        for name, groups in steering.items()
    }
    return RenderedFile(FILE, *dump({"tcp": {"services": services}}, _HEADER))


def _routes(plan: Plan) -> Iterator[Route]:
    """The routes of TCP listeners, each once."""
    tcp = [x for x in plan.listeners if x.mode is Mode.L4 and x.protocol is Protocol.TCP]
    yield from {rule.route: plan.route(rule.route) for listener in tcp for rule in listener.l4_rules}.values()
