"""L4 listeners and their pools -> Traefik's TCP routers and services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged
from lbgen.engines.traefik import names
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan, Route

_FOREVER = "2562047h"  # Go reads 0 as none at all or as its own default; this is as long as it can count


def tcp(plan: Plan, listeners: Iterable[Listener]) -> dict[str, Data]:
    """The `tcp` section for L4 listeners; empty when there is none."""
    routers: dict[str, Data] = {}
    services: dict[str, Data] = {}
    transports: dict[str, Data] = {}
    for listener in listeners:
        for rule in listener.l4_rules:
            route = plan.route(rule.route)
            service = _service(plan, route, services, transports)
            routers[names.edge(listener)] = Tagged(
                rule.field, {"entryPoints": [names.entry_point(listener)], "rule": "HostSNI(`*`)", "service": service}
            )
    if not routers:
        return {}
    return {"routers": routers, "services": services, "serversTransports": transports}


def _service(plan: Plan, route: Route, services: dict[str, Data], transports: dict[str, Data]) -> str:
    """The weighted service of a route over the endpoints of all its pools. TCP servers know no weight of their own, so
    each endpoint is a service."""
    name = f"route-{names.escaped(route.name)}"
    if name in services or not isinstance(route.action, Forward):
        return name
    transports[name] = Tagged(
        route.field,
        {
            "dialTimeout": f"{route.action.timeouts.connect}ms" if route.action.timeouts.connect else _FOREVER,
            "terminationDelay": _FOREVER,  # default 100ms: cuts the other direction after a half-close
        },
    )
    targets = [(target, plan.pool(target.pool)) for target in route.action.targets if target.weight]
    shares: list[Data] = []
    for target, pool in targets:
        total = sum(endpoint.weight for endpoint in pool.endpoints)
        others = 1
        for _, other in targets:
            if other is not pool:
                others *= max(1, sum(endpoint.weight for endpoint in other.endpoints))
        for index, endpoint in enumerate(pool.endpoints):
            if not total or not endpoint.weight:
                continue
            child = f"{index}-{name}-{names.escaped(pool.name)}"
            services[child] = Tagged(
                endpoint.field,
                {"loadBalancer": {"serversTransport": name, "servers": [{"address": endpoint.authority}]}},
            )
            weight = endpoint.weight * (target.weight * others if len(targets) > 1 else 1)
            shares.append(Tagged(endpoint.field, {"name": child, "weight": weight}))
    services[name] = Tagged(route.field, {"weighted": {"services": shares}})
    return name
