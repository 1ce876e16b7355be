"""Active and passive health checks of a pool: options of its servers, and statements of its backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, acl, statement
from lbgen.engines.haproxy.timeouts import LONGEST, duration
from lbgen.engines.text import Literal
from lbgen.plan.model import PoolProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Pool

_ALWAYS_UP = "unix@lbgen-up.sock"  # a frontend of the configuration that accepts every connection


def check_options(pool: Pool, l7: bool) -> Iterator[str]:
    """Options of each `server` that has its own checks."""
    active, passive = pool.active, pool.passive
    if active is not None:
        yield f"check inter {duration(active.interval)} fall {active.fall} rise {active.rise}"
        if active.port is not None:
            yield f"port {active.port}"
        if pool.tls is not None:
            yield "check-ssl"
        if pool.proxy_protocol is not None:
            yield "check-send-proxy"
        if active.path is None and pool.protocol is not PoolProtocol.HTTP1:
            # HAProxy refuses a check that only connects with the HTTP/2 of requests, which it would inherit.
            yield "check-proto none"
        elif pool.protocol is not PoolProtocol.HTTP1:
            yield "check-alpn h2" if pool.tls is not None else "check-proto h2"
    elif passive is not None and not l7:
        # A check that always passes is the timer that brings an ejected endpoint back.
        time = duration(passive.eject_for)
        yield f"check addr {_ALWAYS_UP} inter {LONGEST} fastinter {time} downinter {time} fall 1 rise 1"
    elif pool.slow_start:
        yield f"check addr {_ALWAYS_UP} inter {LONGEST}"
    if passive is not None and not l7:
        yield f"observe layer4 error-limit {passive.failures} on-error mark-down"


def needs_passing_check(pool: Pool) -> bool:
    """Whether its servers are checked against the frontend that accepts every connection."""
    return not pool.active and bool(pool.passive or pool.slow_start)


def active_statements(pool: Pool) -> Iterator[Statement]:
    """What the checks of a backend send and expect."""
    active = pool.active
    if active is None:
        return
    field = f"{pool.field}.health.active"
    yield statement(f"timeout check {duration(active.timeout)}", origin=field)
    if active.path is None:
        return
    statuses = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in active.statuses)
    request = ("uri", Literal(active.path), f"ver HTTP/1.1 hdr Host {pool.endpoints[0].authority}")
    yield statement("option httpchk", origin=field)
    yield statement("http-check send meth GET", *request, origin=field)
    yield statement(f"http-check expect status {statuses}", origin=field)


def passive_statements(pool: Pool) -> Iterator[Statement]:
    """Count failed responses of an L7 pool in Lua, which ejects endpoints. HAProxy's own 503 is no failure of an
    endpoint; good responses matter only while some endpoint has failed."""
    if pool.passive is None:
        return
    judge = f"http-after-response set-var(txn.judged) lua.judged({pool.passive.failures},{pool.passive.eject_for})"
    for acls in (
        [acl("status ge 500"), ~acl("status 503")],
        [acl("status 503"), acl("bc_err -m found")],
        [acl("status lt 500"), acl("var(proc.sick) -m int gt 0")],
    ):
        yield statement(judge, when=acls, origin=f"{pool.field}.health.passive")
