"""Upstream blocks of pools, for HTTP and for L4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from lbgen.engines.nginx.features import FEATURES
from lbgen.engines.nginx.health_checks import server_line
from lbgen.engines.nginx.names import single_upstream
from lbgen.engines.nginx.statements import Endpoint, Upstream
from lbgen.engines.nginx.sticky import STUCK
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import HttpBlock, UpstreamPool
from lbgen.engines.text import Atom
from lbgen.plan.model import Balance, Plan, Pool
from lbgen.plan.model import Endpoint as PlanEndpoint

_LOCALHOST = "localhost"
_ZONE_MIN_KIB, _ZONE_PER_ENDPOINT_KIB = 64, 2
_PLACEHOLDER = "127.0.0.1:1"
"""A server that gets no requests: nginx does not eject the only server of an upstream."""


def with_loopback(plan: Plan) -> Plan:
    """The plan with an address for `localhost`, which nginx's resolver would ask DNS servers for."""
    if all(e.host != _LOCALHOST for pool in plan.pools for e in pool.endpoints):
        return plan
    return replace(plan, pools=tuple(map(_with_loopback, plan.pools)))


def _with_loopback(pool: Pool) -> Pool:
    endpoints = tuple(replace(e, host="127.0.0.1", is_ip=True) if e.host == _LOCALHOST else e for e in pool.endpoints)
    tls = pool.tls
    if tls is not None and tls.server_name is None and all(e.host == _LOCALHOST for e in pool.endpoints):
        tls = replace(tls, server_name=_LOCALHOST)
    return replace(pool, endpoints=endpoints, tls=tls)


def upstreams(pools: Sequence[Pool], on: HttpBlock | None, peer: Atom) -> Iterator[Upstream]:
    """The blocks of pools, and those of single endpoints for requests whose cookie names one, which the others serve
    while it is out. `on` None: at L4, where `peer` is the variable with the client's address."""
    for pool in pools:
        yield _block(UpstreamPool(pool, on, peer), pool.name, Atom(pool.field), pool.endpoints)
    named = on.definitions.known if on is not None and not on.version.upstreams else ()
    for pool in pools:
        for at, endpoint in enumerate(pool.endpoints if (STUCK, pool.name) in named else ()):
            others = (replace(e, backup=True) for e in pool.endpoints if e is not endpoint and e.weight)
            every = (replace(endpoint, weight=1, backup=False), *others)
            single = UpstreamPool(pool, on, peer, single=True)
            yield _block(single, single_upstream(pool.name, at), Atom(endpoint.field), every)


def _block(at: UpstreamPool, name: str, origin: Atom, endpoints: tuple[PlanEndpoint, ...]) -> Upstream:
    pool = at.pool
    servers = [_endpoint(at, e) for e in endpoints]
    if pool.passive is not None and len(servers) == 1:
        line = server_line(_PLACEHOLDER, 0, "")
        servers.append(Endpoint(Atom(pool.field), Atom(_PLACEHOLDER), 0, Atom(""), Atom(line)))
    # nginx requires shared memory to resolve names; workers need it to share connection counts and ejections. Other
    # upstreams are faster without.
    shared = (
        any(not e.is_ip for e in endpoints)
        or pool.balance is Balance.LEAST_CONNECTIONS
        or pool.max_per_endpoint is not None
        or pool.passive is not None
    )
    zone = directive("zone", name, f"{_ZONE_MIN_KIB + _ZONE_PER_ENDPOINT_KIB * len(servers)}k")
    lines = (line for each in FEATURES if each.upstream for line in each.upstream(at))
    return Upstream(
        origin=origin,
        name=Atom.of(r"[a-z0-9._~-]+", name),
        pool=Atom.of(r"[a-z0-9._-]+", pool.name),
        lines=(*([zone] if shared else ()), *lines),
        endpoints=tuple(servers),
        include=Atom(f"upstreams/{'stream' if at.on is None else 'http'}/{name}.conf") if pool.active else None,
        slow_start=bool(pool.slow_start) and not at.single,
    )


def _endpoint(at: UpstreamPool, endpoint: PlanEndpoint) -> Endpoint:
    address = Atom.of(r"[A-Za-z0-9._:\[\]-]+", endpoint.authority)
    options = "".join(each.endpoint(at, endpoint) for each in FEATURES if each.endpoint)
    weight = endpoint.weight or int(at.by_cookie)  # one without weight serves those whose cookie names it
    line = server_line(address.text, weight, options)
    return Endpoint(Atom(endpoint.field), address, weight, Atom(options), Atom(line))
