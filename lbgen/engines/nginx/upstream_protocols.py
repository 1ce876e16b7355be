"""Protocols towards a pool's endpoints: HTTP/1.1, HTTP/2 or gRPC, with or without TLS."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.nginx.statements import Line
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.support import VERSIONS, Version
from lbgen.engines.nginx.tls import file_path
from lbgen.engines.nginx.view import Contributor, HttpForward, L4Server, Lines, UpstreamProtocol
from lbgen.engines.text import Atom
from lbgen.plan.model import Forward, Plan, Pool, PoolProtocol, Route
from lbgen.plan.policy import RetryCause
from lbgen.plan.tls import PoolTls

PROXY, GRPC = "proxy", "grpc"
_GRPC_MODULE = "nginx's gRPC module, which implements HTTP/2 to endpoints here,"
_SYSTEM_CA = "/etc/ssl/certs/ca-certificates.crt"  # nginx has no default


def upstream_module(pool: Pool, version: Version) -> str:
    """The proxy module supports HTTP/2 from 1.29 on; before, the gRPC module carries any HTTP/2 request."""
    if pool.protocol is PoolProtocol.HTTP1 or (pool.protocol is PoolProtocol.HTTP2 and version.upstreams):
        return PROXY
    return GRPC


def upstream_protocol(pool: Pool, version: Version) -> UpstreamProtocol:
    """How nginx talks to the endpoints of `pool`."""
    module = upstream_module(pool, version)
    lines: list[Line] = []
    http2 = module == PROXY and pool.protocol is PoolProtocol.HTTP2
    if http2:
        lines += (directive("proxy_http_version", "2"), directive("proxy_pass_trailers", "on"))
    if pool.tls is not None:
        lines += tls_lines(pool, pool.tls, module)
    scheme = {PROXY: "http", GRPC: "grpc"}[module] + ("s" if pool.tls is not None else "")
    return UpstreamProtocol(module, scheme, tuple(lines), http2)


def verifies_address(pool: Pool, tls: PoolTls) -> bool:
    """Whether an endpoint's certificate must contain its own address."""
    return tls.server_name is None and any(e.is_ip for e in pool.endpoints)


def tls_lines(pool: Pool, tls: PoolTls, module: str) -> Lines:
    """The TLS directives of a module for connections to the endpoints of `pool`."""
    yield directive(f"{module}_ssl_protocols", "TLSv1.2", "TLSv1.3")
    yield directive(f"{module}_ssl_server_name", "on")
    server_name = tls.server_name or pool.endpoints[0].host
    name = Atom("$endpoint_name") if verifies_address(pool, tls) else Atom.of(r"[A-Za-z0-9._-]+", server_name)
    yield directive(f"{module}_ssl_name", name)
    if tls.verify:
        yield directive(f"{module}_ssl_verify", "on")
        yield directive(f"{module}_ssl_verify_depth", "5")
        yield directive(f"{module}_ssl_trusted_certificate", _SYSTEM_CA if tls.ca is None else file_path(tls.ca))
    if tls.certificate is not None:
        yield directive(f"{module}_ssl_certificate", file_path(tls.certificate.cert))
        yield directive(f"{module}_ssl_certificate_key", file_path(tls.certificate.key))


def _objections(plan: Plan, version: str) -> Iterator[Objection]:
    l4 = {rule.route for x in plan.listeners for rule in x.l4_rules}
    for route in plan.routes:
        action = route.action
        if isinstance(action, Forward) and route.name not in l4:
            if any(plan.pool(t.pool).protocol is PoolProtocol.HTTP2 for t in action.targets):
                note = "nginx forwards no upgrades to HTTP/2 endpoints: they get the handshake of a WebSocket as a GET"
                yield Objection(habit(note), f"{route.field}.forward", "route.websocket")
            yield from _grpc(plan, route, action, VERSIONS[version])


def _grpc(plan: Plan, route: Route, action: Forward, version: Version) -> Iterator[Objection]:
    """What the gRPC module does not support."""
    for mirror in action.mirrors:
        if upstream_module(plan.pool(mirror.pool), version) == GRPC:
            yield Objection(refused(f"{_GRPC_MODULE} decodes the target of a mirror"), mirror.field, "route.mirror")
    if any(upstream_module(plan.pool(t.pool), version) == GRPC for t in action.targets if t.weight):
        if action.rewrite is not None and (action.rewrite.path is not None or action.rewrite.prefix is not None):
            yield Objection(refused(f"{_GRPC_MODULE} cannot send a rewritten target"), f"{route.field}.rewrite")
        if action.retries is not None and (
            action.retries.causes - {RetryCause.CONNECT_FAILURE} or action.retries.statuses
        ):
            why = f"{_GRPC_MODULE} keeps no body for a retry; connect_failure needs none"
            yield Objection(refused(why), f"{route.field}.retries", "route.retries")


def _forward(at: HttpForward) -> tuple[Line, ...]:
    return at.protocol.lines


def _stream(at: L4Server) -> Lines:
    if at.pool.proxy_protocol is not None:
        yield directive("proxy_protocol", "on")
    if at.pool.tls is not None:
        yield directive("proxy_ssl", "on")
        for line in tls_lines(at.pool, at.pool.tls, PROXY):
            if not (line.name.text == "proxy_ssl_name" and verifies_address(at.pool, at.pool.tls)):
                yield line


PROTOCOLS = Contributor(forward=_forward, stream=_stream, objections=_objections)
