"""How nginx chooses among the endpoints of a pool, and its connections to them."""

from __future__ import annotations

from typing import assert_never

from lbgen.engines.nginx.forwarded_headers import peer
from lbgen.engines.nginx.names import reference
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.timeouts import duration
from lbgen.engines.nginx.view import Contributor, Lines, UpstreamPool
from lbgen.engines.text import Atom
from lbgen.plan.model import Balance, Endpoint
from lbgen.plan.policy import KeyKind


def _upstream(at: UpstreamPool) -> Lines:
    if at.single:
        return
    match at.pool.balance:
        case Balance.ROUND_ROBIN:
            pass
        case Balance.LEAST_CONNECTIONS:
            yield directive("least_conn")
        case Balance.SOURCE_HASH | Balance.HASH:
            yield directive("hash", _hash_key(at), "consistent")
        case Balance.RANDOM:
            yield directive("random")
        case _:
            assert_never(at.pool.balance)


def _hash_key(at: UpstreamPool) -> Atom:
    """The variable that a hash is computed from; the peer's address by default."""
    key, on = at.pool.hash_key, at.on
    if on is None:
        return at.peer
    if key is None:
        return peer(on)
    if key.kind is KeyKind.HEADER:
        return reference(on.values.shared_header(key.name, on.listeners))
    return reference(on.values.cookie(key.name) if key.kind is KeyKind.COOKIE else on.values.parameter(key.name))


def _endpoint(at: UpstreamPool, endpoint: Endpoint) -> str:
    limit = "" if at.pool.max_per_endpoint is None else f" max_conns={at.pool.max_per_endpoint}"
    return f"{limit}{' backup' if endpoint.backup else ''}{'' if endpoint.is_ip else ' resolve'}"


def _keepalive(at: UpstreamPool) -> Lines:
    """`keepalive` has to follow the balancing method and `sticky`; from 1.30 on nginx keeps connections without it."""
    if at.on is not None and at.pool.keepalive:
        yield directive("keepalive", str(at.pool.keepalive))
        yield directive("keepalive_timeout", duration(at.pool.keepalive_idle))
    elif at.on is not None and at.pool.keepalive == 0 and at.on.version.upstreams:
        yield directive("keepalive", "0")


BALANCING = Contributor(upstream=_upstream)
ENDPOINTS = Contributor(endpoint=_endpoint)
KEEPALIVE = Contributor(upstream=_keepalive)
