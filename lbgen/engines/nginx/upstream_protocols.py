"""How a pool's endpoints are spoken to: HTTP/1.1, HTTP/2 or gRPC, over TLS or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.engines.nginx.tls import path
from lbgen.engines.nginx.view import Line
from lbgen.engines.text import Atom
from lbgen.plan.model import PoolProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.text import Literal
    from lbgen.plan.model import Pool
    from lbgen.plan.tls import PoolTls

PROXY, GRPC = "proxy", "grpc"
_SYSTEM = "/etc/ssl/certs/ca-certificates.crt"
"""The system's authorities: nginx must be told a file."""


@dataclass(frozen=True, slots=True)
class Transport:
    """`kind` is the module whose directives count, `scheme` what `_pass` says; `by_address`: the name that a
    certificate must hold is the address of the endpoint at hand."""

    kind: str
    scheme: str
    lines: tuple[Line, ...]
    by_address: bool = False


def kind(pool: Pool, *, old: bool) -> str:
    """nginx's proxy module speaks HTTP/2 from 1.29 on; its gRPC module carries any HTTP/2 request."""
    if pool.protocol is PoolProtocol.HTTP1 or (pool.protocol is PoolProtocol.HTTP2 and not old):
        return PROXY
    return GRPC


def transport(pool: Pool, *, old: bool) -> Transport:
    """How requests get to the endpoints of `pool`."""
    module = kind(pool, old=old)
    lines: list[Line] = []
    if module == PROXY and pool.protocol is PoolProtocol.HTTP2:
        lines.append(_line("proxy_http_version", Atom("2")))
    if pool.tls is not None:
        lines += tls_lines(pool, pool.tls, module)
    scheme = {PROXY: "http", GRPC: "grpc"}[module] + ("s" if pool.tls is not None else "")
    return Transport(module, scheme, tuple(lines), pool.tls is not None and by_address(pool, pool.tls))


def by_address(pool: Pool, tls: PoolTls) -> bool:
    """Whether each endpoint's certificate must hold its own address."""
    return tls.server_name is None and any(e.is_ip for e in pool.endpoints)


def tls_lines(pool: Pool, tls: PoolTls, module: str) -> Iterator[Line]:
    """The TLS directives of a module for connections to the endpoints of `pool`."""
    yield _line(f"{module}_ssl_protocols", Atom("TLSv1.2"), Atom("TLSv1.3"))
    yield _line(f"{module}_ssl_server_name", Atom("on"))
    name = tls.server_name or pool.endpoints[0].host
    shown = Atom("$endpoint_name") if by_address(pool, tls) else Atom.of(r"[A-Za-z0-9._-]+", name)
    yield _line(f"{module}_ssl_name", shown)
    if tls.verify:
        yield _line(f"{module}_ssl_verify", Atom("on"))
        yield _line(f"{module}_ssl_verify_depth", Atom("5"))
        yield _line(f"{module}_ssl_trusted_certificate", Atom(_SYSTEM) if tls.ca is None else path(tls.ca))
    if tls.certificate is not None:
        yield _line(f"{module}_ssl_certificate", path(tls.certificate.cert))
        yield _line(f"{module}_ssl_certificate_key", path(tls.certificate.key))


def _line(name: str, *args: Atom | Literal) -> Line:
    return Line(Atom(name), args)
