"""Connections to endpoints: by name, kept, counted, queued, with a PROXY header, over HTTP/2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lbgen.engines.api import Objection, approximate
from lbgen.engines.haproxy.statements import Block, Section, Statement, acl, block, deny, section, statement
from lbgen.engines.haproxy.timeouts import duration
from lbgen.engines.haproxy.view import Contributor, PoolUse, used_pools
from lbgen.plan.model import Balance, Endpoint, Forward, Plan, PoolProtocol
from lbgen.plan.pool import KEEPALIVE_IDLE

_RESOLVING = (
    *("resolve_retries 3", "timeout resolve 1s", "timeout retry 1s", "hold valid 5s", "hold obsolete 5s", "hold nx 5s"),
    *("hold other 5s", "hold refused 30s", "hold timeout 30s", "accepted_payload_size 8192"),
)


def is_resolved(endpoint: Endpoint) -> bool:
    """Whether the endpoint is a name for DNS servers."""
    return not endpoint.is_ip and endpoint.host != "localhost"


def _resolvers(plan: Plan) -> Iterator[Block]:
    if any(is_resolved(endpoint) for pool in used_pools(plan) for endpoint in pool.endpoints):
        servers = [statement("nameserver", f"dns{n}", _with_port(each)) for n, each in enumerate(plan.resolvers, 1)]
        servers = servers or [statement("parse-resolv-conf")]
        yield block(statement("resolvers dns"), "", [*servers, *map(statement, _RESOLVING)])


def _with_port(server: str) -> str:
    """A DNS server as `address:port`."""
    if server.count(":") > 1 and not server.startswith("["):
        return f"[{server}]:53"
    return server if ":" in server.rpartition("]")[2] else f"{server}:53"


def purge_delay(keepalive_idle: int) -> str:
    """The time of a step in which HAProxy closes idle connections: it needs three steps for one connection, eight for
    64 and eleven for 500 until the last is closed."""
    return duration(max(1, keepalive_idle // 10) if keepalive_idle else 0)


def _keep(use: PoolUse, _: int, endpoint: Endpoint) -> Iterator[str]:
    if use.l7 and use.pool.keepalive_idle != KEEPALIVE_IDLE:  # which the defaults section has
        yield f"pool-purge-delay {purge_delay(use.pool.keepalive_idle)}"
    if use.keepalive_limited:
        yield f"pool-max-conn {use.pool.keepalive}"


def _all_backups(use: PoolUse) -> Iterator[Statement]:
    if any(endpoint.backup for endpoint in use.pool.endpoints):
        yield statement("option allbackups", origin=use.pool.field)


def _max_per_endpoint(use: PoolUse, _: int, endpoint: Endpoint) -> Iterator[str]:
    if use.pool.max_per_endpoint is not None:
        yield f"maxconn {use.pool.max_per_endpoint}"


def _queue(use: PoolUse) -> Iterator[Statement]:
    """Without a queue a request waits for HAProxy's shortest time."""
    queue, origin = use.pool.queue, f"{use.pool.field}.connections"
    if use.pool.max_per_endpoint is None:
        return
    yield statement(f"timeout queue {'1ms' if queue is None else duration(queue.timeout)}", origin=origin)
    if use.l7 and queue is not None:
        yield deny(503, [acl(f"queue ge {queue.size}")], origin)


def _proxy_protocol(use: PoolUse, _: int, endpoint: Endpoint) -> Iterator[str]:
    if use.pool.proxy_protocol is not None:
        yield "send-proxy" if use.pool.proxy_protocol == "v1" else "send-proxy-v2"


def _http2_settings(plan: Plan, version: str) -> Iterator[Section]:
    if any(listener.http2 for listener in plan.listeners):
        why = "browsers open WebSockets over HTTP/1.1: over HTTP/2 a large message may stall"
        yield section("", [statement("h2-workaround-bogus-websocket-clients", comment=why)])


def _http2_backend(use: PoolUse) -> Iterator[Statement]:
    if use.pool.protocol is PoolProtocol.HTTP1 or not use.l7:
        return
    origin = use.pool.field
    if use.pool.tls is None:
        # For a path alone HAProxy writes the scheme https.
        set_scheme = "http-request set-uri http://%[req.fhdr(host)]%[pathq]"
        yield statement(set_scheme, when=[acl("pathq -m beg /")], origin=origin)
    yield statement("http-request set-header TE trailers", when=[acl("var(txn.trailers) -m bool")], origin=origin)


def _http2_server(use: PoolUse, _: int, endpoint: Endpoint) -> Iterator[str]:
    if use.pool.protocol is not PoolProtocol.HTTP1:
        yield "proto h2" if use.pool.tls is None else "alpn h2"


def _objections(plan: Plan, version: str) -> Iterator[Objection]:
    ways = {
        (target.pool, route.action.timeouts.connect, route.action.retries, route.compression)
        for route in plan.routes
        if isinstance(route.action, Forward)
        for target in route.action.targets
    }
    backends = Counter(pool for pool, *_ in ways)
    for pool in plan.pools:
        if pool.max_per_endpoint is None:
            continue
        where = f"{pool.field}.connections.max_per_endpoint"
        if pool.balance in (Balance.HASH, Balance.SOURCE_HASH, Balance.RANDOM):
            note = "a request for an endpoint that is full does not go to another one"
            shows = {"pool.connections.max_per_endpoint.chosen": "places"}
            yield Objection(approximate(note, shows), where, "pool.connections.max_per_endpoint")
        if backends[pool.name] > 1:
            note = "requests of routes that differ in connect time, retries or compression are counted separately"
            counted = {"pool.connections.max_per_endpoint.routes": "places"}
            yield Objection(approximate(note, counted), where, "pool.connections.max_per_endpoint")


def _resolved(use: PoolUse, _: int, endpoint: Endpoint) -> Iterator[str]:
    """A process that takes over at a reload has no address of a name until a DNS server answers, unless it asks before
    it serves. Not for several addresses: all servers of a template would keep the first."""
    if is_resolved(endpoint):
        yield f"resolvers dns init-addr {'libc,none' if endpoint.early and endpoint.addresses == 1 else 'none'}"


ENDPOINT_NAMES = Contributor(sections=_resolvers, server=_resolved)
KEEPALIVE = Contributor(server=_keep)
BACKUPS = Contributor(backend=_all_backups, server=lambda use, number, endpoint: ["backup"] if endpoint.backup else [])
MAX_PER_ENDPOINT = Contributor(server=_max_per_endpoint, objections=_objections)
QUEUES = Contributor(backend=_queue)
PROXY_PROTOCOL = Contributor(server=_proxy_protocol)
HTTP2 = Contributor(settings=_http2_settings, backend=_http2_backend, server=_http2_server)
SLOW_START = Contributor(
    server=lambda use, number, endpoint: [f"slowstart {duration(use.pool.slow_start)}"] if use.pool.slow_start else []
)
