"""Pools and splits -> services: one per endpoint with a hop on it, and the balances above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Tagged
from lbgen.engines.traefik import names
from lbgen.engines.traefik.edge import native_split
from lbgen.plan.model import Balance, Forward
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.document import Data
    from lbgen.plan.model import Endpoint, Plan, Pool, Route

Section = dict[str, "Data"]


@record
class Known:
    """What hops need of the whole plan: by pool the (connect, response) times of its routes, and DNS servers."""

    times: Mapping[str, list[tuple[int, int]]]
    resolvers: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan) -> Known:
        """What `plan` says."""
        found: dict[str, set[tuple[int, int]]] = {}
        for route in plan.routes:
            if isinstance(route.action, Forward):
                pair = (route.action.timeouts.connect, route.action.timeouts.response)
                for target in route.action.targets:
                    found.setdefault(target.pool, set()).add(pair)
        return cls({name: sorted(pairs) for name, pairs in found.items()}, plan.resolvers)


def pool_services(known: Known, pool: Pool, services: Section, middlewares: Section) -> None:
    """Add what serves `pool`: nothing when no endpoint of it takes requests."""
    able = [(index, endpoint) for index, endpoint in enumerate(pool.endpoints) if endpoint.weight]
    if not able:
        return
    name = names.pool(pool)
    match pool.balance:
        case Balance.LEAST_CONNECTIONS:
            # Traefik's p2c compares two endpoints and knows no weights; the hop compares all by weight.
            hop = names.endpoint(pool, 0)
            middlewares[hop] = _hop(known, pool, [endpoint for _, endpoint in able])
            services[name] = _server(pool, hop, [endpoint for _, endpoint in able], "p2c")
        case Balance.ROUND_ROBIN | Balance.SOURCE_HASH | Balance.RANDOM | Balance.HASH:
            children: list[Data] = []
            for index, endpoint in enumerate(pool.endpoints):
                child = names.endpoint(pool, index)
                children.append(Tagged(endpoint.field, {"name": child, "weight": endpoint.weight}))
                middlewares[child] = _hop(known, pool, [endpoint])
                services[child] = _server(pool, child, [endpoint])
            kind = "highestRandomWeight" if pool.balance is Balance.SOURCE_HASH else "weighted"
            services[name] = Tagged(pool.field, {kind: {"services": children}})
        case _:
            assert_never(pool.balance)


def _server(pool: Pool, hop: str, endpoints: list[Endpoint], strategy: str = "") -> Tagged:
    balancer: dict[str, Data] = {"servers": [Tagged(e.field, {"url": f"http://{e.authority}"}) for e in endpoints]}
    if strategy:
        balancer["strategy"] = strategy
    return Tagged(pool.field if strategy else endpoints[0].field, {"middlewares": [hop], "loadBalancer": balancer})


def _hop(known: Known, pool: Pool, endpoints: list[Endpoint]) -> Tagged:
    listed: list[Data] = []
    for endpoint in endpoints:
        data: dict[str, Data] = {"host": endpoint.host, "port": str(endpoint.port), "weight": endpoint.weight}
        if not endpoint.is_ip:
            data["lookup"] = True
        listed.append(Tagged(endpoint.field, data))
    pairs: list[Data] = [{"connect": connect, "response": response} for connect, response in known.times[pool.name]]
    hop: dict[str, Data] = {"keepalive": pool.keepalive, "times": pairs, "endpoints": listed}
    if known.resolvers and any(not endpoint.is_ip for endpoint in endpoints):
        hop["resolvers"] = [_with_port(server) for server in known.resolvers]
    return Tagged(pool.field, {"plugin": {names.PLUGIN: {"hop": hop}}})


def _with_port(server: str) -> str:
    """A DNS server with its port; 53 unless said."""
    if server.startswith("["):
        return server if "]:" in server else f"{server}:53"
    if server.count(":") > 1:
        return f"[{server}]:53"
    return server if ":" in server else f"{server}:53"


def split_service(pools: Mapping[str, Pool], route: Route, services: Section) -> None:
    """Add the weighted service of a route that Traefik itself splits."""
    forward = route.action
    if not isinstance(forward, Forward) or not native_split(forward):
        return
    if all(names.pool(pools[target.pool]) in services for target in forward.targets):
        shares: list[Data] = [
            Tagged(target.field, {"name": names.pool(pools[target.pool]), "weight": target.weight})
            for target in forward.targets
        ]
        services[names.split(route)] = Tagged(route.field, {"weighted": {"services": shares}})
