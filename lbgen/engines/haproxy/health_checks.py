"""Active and passive health checks of a pool: options of its servers, and statements of its backends."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, habit
from lbgen.engines.haproxy.statements import Section, Statement, section, statement
from lbgen.engines.haproxy.timeouts import LONGEST, duration
from lbgen.engines.haproxy.view import Contributor, PoolUse, used_pools
from lbgen.engines.text import Literal
from lbgen.plan.model import Endpoint, Plan, Pool, PoolProtocol


def _settings(plan: Plan, _: str) -> Iterator[Section]:
    if any(pool.passive for pool in used_pools(plan)):
        why = "else the first checks would be spread over the longest interval"
        yield section("", [statement("max-spread-checks 500ms", comment=why)])


def _follows(use: PoolUse) -> bool:
    """Whether its servers have the state of another backend's. A template's cannot, as all would name the same one."""
    return bool(use.tracked) and all(endpoint.addresses == 1 for endpoint in use.pool.endpoints)


def _server(use: PoolUse, number: int, _: Endpoint) -> Iterator[str]:
    pool = use.pool
    active, passive = pool.active, pool.passive
    if _follows(use) and (active or passive):
        yield f"track {use.tracked}/s{number}"
        return
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
    elif passive is not None:
        # No check is due while all goes well; the first failure makes one due, as does an ejection when it ends.
        time = duration(passive.eject_for)
        yield f"check inter {LONGEST} fastinter {time} downinter {time} fall 1 rise 1"
        if pool.protocol is not PoolProtocol.HTTP1:
            yield "check-proto none"
    if passive is not None:
        yield f"observe layer{7 if use.l7 else 4} error-limit {passive.failures} on-error mark-down"


def _backend(use: PoolUse) -> Iterator[Statement]:
    """What active checks send and expect."""
    pool, active = use.pool, use.pool.active
    if active is None or _follows(use):
        return
    field = f"{pool.field}.health.active"
    yield statement(f"timeout check {duration(active.timeout)}", origin=field)
    if active.path is None:
        return
    statuses = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in active.statuses)
    request = ("uri", Literal(active.path), "ver HTTP/1.1 hdr Host", Literal(_host(pool)))
    yield statement("option httpchk", origin=field)
    yield statement("http-check send meth GET", *request, origin=field)
    yield statement(f"http-check expect status {statuses}", origin=field)


def _host(pool: Pool) -> str:
    """The Host of a check: each endpoint's own, in the words of log formats."""
    hosts = [endpoint.authority for endpoint in pool.endpoints]
    if len(set(hosts)) == 1 or any("[" in host for host in hosts):  # brackets would end the expression
        return hosts[0]
    if all(endpoint.is_ip for endpoint in pool.endpoints):
        return "%[bc_dst]:%[bc_dst_port]"
    ends = ("$" if endpoint.addresses == 1 else "-.*$" for endpoint in pool.endpoints)  # of a template's servers
    named = enumerate(zip(hosts, ends, strict=True), 1)
    return f"%[srv_name{''.join(f',regsub(^s{n}{end},{host})' for n, (host, end) in named)}]"


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for pool in plan.pools:
        if pool.active and pool.passive:
            note = "an ejected endpoint returns as soon as its active checks pass, not after eject_for"
            shows = {"pool.health.passive.checked": "endpoint"}
            yield Objection(habit(note, shows), f"{pool.field}.health.passive", "pool.health.passive")


HEALTH_CHECKS = Contributor(settings=_settings, backend=_backend, server=_server, objections=_objections)
