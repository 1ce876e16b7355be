"""Changes that a runtime makes to a plan before rendering: ports, addresses, endpoints, the admin port."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from lbgen.plan.acme import CHALLENGES
from lbgen.plan.auth import ForwardAuth, JwtAuth, KeysUrl
from lbgen.plan.model import EngineOptions, Forward, Metrics, Plan


def with_ports(plan: Plan, ports: Mapping[str, int]) -> Plan:
    """`plan` with each listener (by name) on another port; redirects and X-Forwarded-Port follow it."""
    return replace(plan, listeners=tuple(replace(x, port=ports.get(x.name, x.port)) for x in plan.listeners))


def with_addresses(plan: Plan, addresses: Mapping[str, str]) -> Plan:
    """`plan` with each listener (by name) on another IP address."""
    return replace(plan, listeners=tuple(replace(x, address=addresses.get(x.name, x.address)) for x in plan.listeners))


def with_endpoints(plan: Plan, addresses: Mapping[str, tuple[str, int]]) -> Plan:
    """`plan` with endpoints (by field, such as `pools.web.endpoints[0]`) at another IP and port."""
    pools = []
    for pool in plan.pools:
        endpoints = []
        for endpoint in pool.endpoints:
            if endpoint.field in addresses:
                host, port = addresses[endpoint.field]
                name = endpoint.written or endpoint.authority
                endpoint = replace(endpoint, host=host, port=port, is_ip=True, written=name)
            endpoints.append(endpoint)
        pools.append(replace(pool, endpoints=tuple(endpoints)))
    return replace(plan, pools=tuple(pools))


def with_real_endpoints(plan: Plan, pools: Collection[str] | None = None) -> Plan:
    """`plan` without stand-ins for `pools` (None = for any pool), and for the pools of services that guard them, unless
    these ask for stand-ins: one admits every request, and signs with a key that everybody has."""
    if pools is None:
        return replace(plan, pools=tuple(replace(x, stand_ins=False) for x in plan.pools))
    guards = _guards(plan, pools) if pools else ()
    real = (x.name in pools or (x.name in guards and x.stand_ins is None) for x in plan.pools)
    return replace(
        plan, pools=tuple(replace(x, stand_ins=False) if own else x for x, own in zip(plan.pools, real, strict=True))
    )


def _guards(plan: Plan, pools: Collection[str]) -> frozenset[str]:
    """The pools of the services that say which requests reach `pools`."""
    found = set()
    for route in plan.routes:
        if isinstance(route.action, Forward) and any(target.pool in pools for target in route.action.targets):
            if isinstance(route.auth, ForwardAuth):
                found.add(route.auth.pool)
            elif isinstance(route.auth, JwtAuth) and isinstance(route.auth.keys, KeysUrl):
                found.add(route.auth.keys.pool)
    return frozenset(found)


def with_device(plan: Plan, device: str) -> Plan:
    """`plan` with that interface for each engine that has one of direct forwarding."""
    return replace(plan, engines=tuple((n, replace(x, device=device) if x.device else x) for n, x in plan.engines))


def with_admin(plan: Plan, port: int, *, shared: bool = False) -> Plan:
    """`plan` with the engine's status interface on that loopback port. `shared`: other stacks use that loopback too, so
    that it serves the status of endpoints, and of files that were taken over, only."""
    return replace(plan, admin_port=port, admin_shared=shared)


def with_workers(plan: Plan, count: int) -> Plan:
    """`plan` with so many processes of an engine that would start one for each core, also for those that it may not
    use; the others count what they may use."""
    return replace(plan, workers=count)


def without_admin(plan: Plan) -> Plan:
    """`plan` without the engine's status interface; the same object if it has none."""
    return plan if plan.admin_port is None else replace(plan, admin_port=None, admin_shared=False)


def with_metrics(plan: Plan, *, offset: int = 0, address: str | None = None) -> Plan:
    """`plan` with its metrics, if it has any, `offset` ports further up and on `address` (None = the topology's)."""
    if plan.metrics is None:
        return plan
    moved = Metrics(address or plan.metrics.address, plan.metrics.port + offset)
    return replace(plan, metrics=moved)


def with_challenge_port(plan: Plan, *, offset: int) -> Plan:
    """`plan` with the agent's server of ACME challenges, if it has one, `offset` ports further up."""
    if plan.acme is None or not offset:
        return plan
    port = plan.acme.port + offset
    agents = {
        each.field: (each.host, port) for pool in plan.pools if pool.name == CHALLENGES for each in pool.endpoints
    }
    return replace(with_endpoints(plan, agents), acme=replace(plan.acme, port=port))


def with_version(plan: Plan, engine: str, version: str) -> Plan:
    """`plan` with `engines.<engine>.version` set to the version that will serve it."""
    options = dict(plan.engines)
    options[engine] = replace(options.get(engine, EngineOptions()), version=version)
    return replace(plan, engines=tuple(options.items()))
