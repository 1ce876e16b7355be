"""Upstream blocks of pools, for HTTP and for L4."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from lbgen.engines.nginx.timeouts import duration
from lbgen.engines.nginx.view import Endpoint, Upstream
from lbgen.engines.text import Atom
from lbgen.plan.model import Balance
from lbgen.plan.model import Endpoint as PlanEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Plan, Pool

_LOCALHOST = "localhost"
FULL_WEIGHT = 100  # percent
_ZONE_MIN_KIB, _ZONE_PER_ENDPOINT_KIB = 64, 2
_PLACEHOLDER = "127.0.0.1:1"
"""A server that gets no requests: nginx does not eject the only server of an upstream."""


def single_upstream(pool: str, at: int) -> str:
    """The upstream of one endpoint; names of pools contain no tilde."""
    return f"{pool}~{at}"


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


def upstream(pool: Pool, key: Atom, *, l4: bool = False, sticky_route: Atom | None = None) -> Upstream:
    """The block of a pool. `key` is the input of a hash, `sticky_route` the variable with the id in the cookie."""
    return _block(pool, pool.name, pool.endpoints, _method(pool.balance, key), l4=l4, sticky_route=sticky_route)


def _block(
    pool: Pool,
    name: str,
    endpoints: tuple[PlanEndpoint, ...],
    method: Atom | None,
    *,
    l4: bool = False,
    sticky_route: Atom | None = None,
) -> Upstream:
    # nginx requires shared memory to resolve names; workers need it to share connection counts and ejections. Other
    # upstreams are faster without.
    shared = (
        any(not e.is_ip for e in endpoints)
        or pool.balance is Balance.LEAST_CONNECTIONS
        or pool.max_per_endpoint is not None
        or pool.passive is not None
    )
    servers = [_endpoint(e, pool, routed=sticky_route is not None) for e in endpoints]
    if pool.passive is not None and len(servers) == 1:
        line = server_line(_PLACEHOLDER, 0, "")
        servers.append(Endpoint(Atom(pool.field), Atom(_PLACEHOLDER), 0, Atom(""), Atom(line)))
    return Upstream(
        origin=Atom(pool.field),
        name=Atom.of(r"[a-z0-9._~-]+", name),
        pool=Atom.of(r"[a-z0-9._-]+", pool.name),
        zone=_ZONE_MIN_KIB + _ZONE_PER_ENDPOINT_KIB * len(servers) if shared else 0,
        method=method,
        endpoints=tuple(servers),
        keepalive=None if l4 else pool.keepalive,
        keepalive_idle=duration(pool.keepalive_idle),
        include=Atom(f"upstreams/{'stream' if l4 else 'http'}/{name}.conf") if pool.active else None,
        slow_start=bool(pool.slow_start),
        sticky_route=sticky_route,
    )


def single_upstreams(pool: Pool) -> Iterator[Upstream]:
    """A block per endpoint for the requests whose cookie names it; the others serve them while it is out."""
    for at, endpoint in enumerate(pool.endpoints):
        others = (replace(e, backup=True) for e in pool.endpoints if e is not endpoint and e.weight)
        block = _block(pool, single_upstream(pool.name, at), (replace(endpoint, weight=1, backup=False), *others), None)
        yield replace(block, origin=Atom(endpoint.field), slow_start=False)


def server_line(address: str, weight: int, options: str, *, percent: int = FULL_WEIGHT, scale: int = 1) -> str:
    """A `server` directive without its semicolon, at `percent` of its weight."""
    share = 0 if not weight or not percent else max(1, weight * scale * percent // FULL_WEIGHT)
    weighted = f" weight={share}" if share > 1 else ""
    return f"server {address}{weighted}{options}{'' if share else ' down'}"


def _endpoint(endpoint: PlanEndpoint, pool: Pool, *, routed: bool) -> Endpoint:
    address = Atom.of(r"[A-Za-z0-9._:\[\]-]+", endpoint.authority)
    passive = pool.passive
    options = " max_fails=0"
    if passive is not None:
        options = f" max_fails={passive.failures} fail_timeout={-(-passive.eject_for // 1000)}s"
    if pool.max_per_endpoint is not None:
        options += f" max_conns={pool.max_per_endpoint}"
    options += " backup" if endpoint.backup else ""
    options += "" if endpoint.is_ip else " resolve"
    weight = endpoint.weight
    if routed:
        options += f" route={endpoint.cookie_value}" + ("" if weight else " drain")
        weight = weight or 1
    line = server_line(address.text, weight, options)
    return Endpoint(Atom(endpoint.field), address, weight, Atom(options), Atom(line))


def _method(balance: Balance, key: Atom) -> Atom | None:
    match balance:
        case Balance.ROUND_ROBIN:
            return None
        case Balance.LEAST_CONNECTIONS:
            return Atom("least_conn")
        case Balance.SOURCE_HASH | Balance.HASH:
            return Atom(f"hash {key.text} consistent")
        case Balance.RANDOM:
            return Atom("random")
        case _:
            assert_never(balance)
