"""Pools -> upstream blocks, for HTTP and for TCP alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.nginx.health_checks import server
from lbgen.engines.nginx.retries import backups, separate_backups, single
from lbgen.engines.nginx.view import Endpoint, Upstream
from lbgen.engines.text import Atom
from lbgen.plan.model import Balance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Endpoint as PlanEndpoint
    from lbgen.plan.model import Pool

_ZONE_LEAST = 64  # KiB
_ZONE_PER_ENDPOINT = 2


_STRANGER = "127.0.0.1:1"
"""An endpoint that is never asked: nginx does not eject the only server of an upstream."""


def upstreams(
    pool: Pool, key: Atom, *, tcp: bool = False, old: bool = False, stuck: Atom | None = None
) -> Iterator[Upstream]:
    """The blocks for one pool; `key` is what a hash is made of, `stuck` the id of the endpoint that a client is bound
    to. TCP has no kept connections."""
    apart = separate_backups(pool)
    usual = tuple(e for e in pool.endpoints if not (apart and e.backup))
    yield _block(pool, pool.name, usual, _method(pool.balance, key), tcp=tcp, stuck=None if old else stuck)
    if apart:
        late = tuple(replace(e, backup=False) for e in pool.endpoints if e.backup)
        yield _block(pool, backups(pool.name), late, _method(pool.balance, key), tcp=tcp, stuck=None)


def _block(
    pool: Pool, name: str, endpoints: tuple[PlanEndpoint, ...], method: Atom | None, *, tcp: bool, stuck: Atom | None
) -> Upstream:
    names = any(not e.is_ip for e in endpoints)
    # Workers must agree on who has how many connections or is out, and nginx wants shared memory for names; the rest
    # is faster without.
    shared = (
        names
        or pool.balance is Balance.LEAST_CONNECTIONS
        or pool.max_per_endpoint is not None
        or pool.passive is not None
    )
    servers = [_endpoint(e, pool, routed=stuck is not None) for e in endpoints]
    if pool.passive is not None and len(servers) == 1:
        line = server(_STRANGER, 0, "")
        servers.append(Endpoint(Atom(pool.field), Atom(_STRANGER), 0, Atom(""), Atom(line)))
    return Upstream(
        origin=Atom(pool.field),
        name=Atom.of(r"[a-z0-9._~-]+", name),
        pool=Atom.of(r"[a-z0-9._-]+", pool.name),
        zone=_ZONE_LEAST + _ZONE_PER_ENDPOINT * len(servers) if shared else 0,
        method=method,
        endpoints=tuple(servers),
        keepalive=0 if tcp else pool.keepalive,
        include=Atom(f"upstreams/{'stream' if tcp else 'http'}/{name}.conf") if pool.active else None,
        slow_start=bool(pool.slow_start),
        stuck=stuck,
    )


def singles(pool: Pool) -> Iterator[Upstream]:
    """A block for each endpoint alone, for requests that must go there and nowhere else."""
    for at, endpoint in enumerate(pool.endpoints):
        alone = replace(endpoint, weight=1, backup=False)
        made = _block(pool, single(pool.name, at), (alone,), None, tcp=False, stuck=None)
        yield replace(made, origin=Atom(endpoint.field), slow_start=False)


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
    line = server(address.text, weight, options)
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
