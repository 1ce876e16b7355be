"""Pools -> upstream blocks, for HTTP and for TCP alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.nginx.members import server
from lbgen.engines.nginx.retries import single
from lbgen.engines.nginx.view import Endpoint, Upstream
from lbgen.engines.text import Atom
from lbgen.plan.model import Balance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Endpoint as PlanEndpoint
    from lbgen.plan.model import Pool

_ZONE_LEAST = 64  # KiB
_ZONE_PER_ENDPOINT = 2


def upstream(pool: Pool, key: Atom, *, tcp: bool = False) -> Upstream:
    """The block for one pool; `key` is what a hash is made of. TCP has no kept connections."""
    names = any(not e.is_ip for e in pool.endpoints)
    method = _method(pool.balance, key)
    shared = names or pool.balance is Balance.LEAST_CONNECTIONS or pool.max_per_endpoint is not None
    name = Atom.of(r"[a-z0-9._-]+", pool.name)
    # Workers must agree on who has how many connections, and nginx wants shared memory for names; the rest is faster
    # without.
    zone = _ZONE_LEAST + _ZONE_PER_ENDPOINT * len(pool.endpoints)
    return Upstream(
        origin=Atom(pool.field),
        name=name,
        pool=name,
        zone=zone if shared else 0,
        method=method,
        endpoints=tuple(_endpoint(e, pool) for e in pool.endpoints),
        keepalive=0 if tcp else pool.keepalive,
        include=Atom(f"upstreams/{'stream' if tcp else 'http'}/{name.text}.conf") if pool.active else None,
        slow_start=bool(pool.slow_start),
    )


def singles(pool: Pool) -> Iterator[Upstream]:
    """A block for each endpoint alone, for requests that must go there and nowhere else."""
    for at, endpoint in enumerate(pool.endpoints):
        name = single(pool.name, at)
        alone = replace(endpoint, weight=1, backup=False)
        yield Upstream(
            origin=Atom(endpoint.field),
            name=Atom.of(r"[a-z0-9._~-]+", name),
            pool=Atom.of(r"[a-z0-9._-]+", pool.name),
            zone=_ZONE_LEAST if pool.max_per_endpoint is not None else 0,
            method=None,
            endpoints=(_endpoint(alone, pool),),
            keepalive=pool.keepalive,
            include=Atom(f"upstreams/http/{name}.conf") if pool.active else None,
        )


def _endpoint(endpoint: PlanEndpoint, pool: Pool) -> Endpoint:
    address = Atom.of(r"[A-Za-z0-9._:\[\]-]+", endpoint.authority)
    options = " max_fails=0"
    if pool.max_per_endpoint is not None:
        options += f" max_conns={pool.max_per_endpoint}"
    options += "" if endpoint.is_ip else " resolve"
    line = server(address.text, endpoint.weight, options)
    return Endpoint(Atom(endpoint.field), address, endpoint.weight, Atom(options), Atom(line))


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
