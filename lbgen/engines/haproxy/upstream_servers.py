"""The `server` lines of a backend: address, weight, checks, limits, stickiness, TLS and protocol."""

from __future__ import annotations

from functools import reduce
from math import gcd
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.haproxy.health_checks import check_options
from lbgen.engines.haproxy.statements import Statement, statement
from lbgen.engines.haproxy.timeouts import duration
from lbgen.engines.text import Literal
from lbgen.plan.model import Balance, PoolProtocol
from lbgen.plan.pool import KEEPALIVE_IDLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.haproxy.statements import Word
    from lbgen.plan.model import Endpoint, Pool

_MAX_WEIGHT = 256
# These place endpoints on a ring in numbers that follow their weights; small numbers would share requests unevenly.
_ON_A_RING = (Balance.RANDOM, Balance.HASH)


def weights(pool: Pool) -> list[int]:
    """The endpoints' weights, 0 to 256 as in the topology."""
    weights = [endpoint.weight for endpoint in pool.endpoints]
    if pool.balance not in _ON_A_RING:
        return weights
    divisor = reduce(gcd, weights) or 1
    reduced = [weight // divisor for weight in weights]
    return [weight * (_MAX_WEIGHT // max([*reduced, 1])) for weight in reduced]


def is_resolved(endpoint: Endpoint) -> bool:
    """Whether the endpoint is a name for DNS servers."""
    return not endpoint.is_ip and endpoint.host != "localhost"


class Role(Struct, frozen=True, eq=False):
    """How a backend uses its pool. `keepalive_limited`: the topology limits idle connections; `tracked`: the backend
    with the same endpoints whose checks this one follows, "" = it has its own."""

    l7: bool
    keepalive_limited: bool
    tracked: str


def purge_delay(keepalive_idle: int) -> str:
    """The time of a step in which HAProxy closes idle connections: it needs three steps for one connection, eight for
    64 and eleven for 500 until the last is closed."""
    return duration(max(1, keepalive_idle // 10) if keepalive_idle else 0)


def server_statements(pool: Pool, role: Role) -> list[Statement]:
    """One line per endpoint."""
    statements = []
    for n, (endpoint, weight) in enumerate(zip(pool.endpoints, weights(pool), strict=True), 1):
        is_localhost = not endpoint.is_ip and not is_resolved(endpoint)  # HAProxy would ask a DNS server for it
        address = f"127.0.0.1:{endpoint.port}" if is_localhost else endpoint.authority
        tracked = f"{role.tracked}/s{n}" if role.tracked else ""
        options = [*([] if weight == 1 else [f"weight {weight}"]), *_options(pool, endpoint, role, tracked)]
        statements.append(statement(f"server s{n}", address, *options, origin=endpoint.field))
    return statements


def _options(pool: Pool, endpoint: Endpoint, role: Role, tracked: str) -> Iterator[str | Word]:
    if is_resolved(endpoint):
        yield "resolvers dns init-addr none"
    if role.l7 and pool.keepalive_idle != KEEPALIVE_IDLE:  # which the defaults section has
        yield f"pool-purge-delay {purge_delay(pool.keepalive_idle)}"
    if role.keepalive_limited:
        yield f"pool-max-conn {pool.keepalive}"
    if endpoint.backup:
        yield "backup"
    if pool.max_per_endpoint is not None:
        yield f"maxconn {pool.max_per_endpoint}"
    if pool.sticky is not None and role.l7:
        yield f"cookie {endpoint.cookie_value}"
    if pool.proxy_protocol is not None:
        yield "send-proxy" if pool.proxy_protocol == "v1" else "send-proxy-v2"
    yield from _transport_options(pool, endpoint)
    checks = list(check_options(pool, role.l7))
    yield from [f"track {tracked}"] if checks and tracked else checks
    if pool.slow_start:
        yield f"slowstart {duration(pool.slow_start)}"


def _transport_options(pool: Pool, endpoint: Endpoint) -> Iterator[str | Word]:
    """TLS and HTTP version. HAProxy reads the key of a certificate from `<certificate>.key`."""
    is_http2 = pool.protocol is not PoolProtocol.HTTP1
    tls = pool.tls
    if tls is None:
        if is_http2:
            yield "proto h2"
        return
    yield "ssl ssl-min-ver TLSv1.2"
    if tls.verify:
        yield "verify required ca-file"
        yield Literal(tls.ca.path) if tls.ca is not None else "@system-ca"
    else:
        yield "verify none"
    name = tls.server_name or (None if endpoint.is_ip else endpoint.host)
    if name is not None:
        yield f"sni str({name})"
        if pool.active or pool.passive:
            yield f"check-sni {name}"
        if tls.verify:
            yield f"verifyhost {name}"
    if tls.certificate is not None:
        yield "crt"
        yield Literal(tls.certificate.cert.path)
    if is_http2:
        yield "alpn h2"
