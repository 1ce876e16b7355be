"""Sockets of a listener, and the directives that all of its server blocks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx import access_log, tls
from lbgen.engines.nginx.limits import header_buffers
from lbgen.engines.nginx.names import network
from lbgen.engines.nginx.paths import keeps_slashes
from lbgen.engines.nginx.strings import directive
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.nginx.support import Version
    from lbgen.engines.nginx.view import Line
    from lbgen.plan.model import Listener

_EVERY_ADDRESS = ("0.0.0.0/0", "::/0")


def listen_addresses(listener: Listener) -> tuple[Atom, ...]:
    """`::` includes IPv4, on a socket of its own so that IPv4 peers do not appear as ::ffff:a.b.c.d."""
    if listener.address == "::":
        return (Atom(f"0.0.0.0:{listener.port}"), Atom(f"[::]:{listener.port}"))
    address = f"[{listener.address}]" if ":" in listener.address else listener.address
    return (Atom.of(r"[0-9a-fA-F.:\[\]]+", f"{address}:{listener.port}"),)


def listen_parameters(listener: Listener, *, http2: bool = False) -> tuple[Atom, ...]:
    """The parameters of `listen` except default_server; `http2` is one of them before 1.25."""
    options = " ssl" if listener.tls is not None else ""
    options += " http2" if http2 else ""
    options += " proxy_protocol" if listener.proxy_protocol else ""
    return tuple(Atom(f"{address.text}{options}") for address in listen_addresses(listener))


def virtual_servers(listener: Listener) -> tuple[tls.VirtualServer, ...]:
    """The server blocks of the listener."""
    if listener.tls is None:
        return tuple(tls.plain_virtual_server(table) for table in listener.hosts)
    return tls.virtual_servers(listener, listener.tls)


def server_directives(
    listener: Listener,
    server: tls.VirtualServer,
    with_real_ip: frozenset[str],
    version: Version,
    *,
    logs: bool = True,
) -> Iterator[Line]:
    """The directives of a server block apart from its locations; `logs`: the access log is not that of the http
    block."""
    if listener.http2 and version.http2_directive:
        yield directive("http2", "on")
    if listener.tls is not None:
        yield from tls.tls_directives(listener.tls, server.certificate, tls.HTTP_SESSIONS)
    if logs:
        yield from access_log.log_directives(listener)
    if listener.underscores:  # this admits other characters as well, such as dots
        yield directive("underscores_in_headers", "on")
        yield directive("ignore_invalid_headers", "off")
    if keeps_slashes(listener):
        yield directive("merge_slashes", "off")
    if (buffers := header_buffers(listener.limits)) is not None:
        yield buffers
    if listener.proxy_protocol:
        yield from real_ip_from()
        yield directive("real_ip_header", "proxy_protocol")
    elif listener.name in with_real_ip:
        yield from real_ip_from(listener.trusted_proxies)
        yield directive("real_ip_header", "X-Forwarded-For")
        yield directive("real_ip_recursive", "on")


def real_ip_from(networks: tuple[str, ...] = _EVERY_ADDRESS) -> Iterator[Line]:
    """The peers that may state the client's address."""
    for each in networks:
        yield directive("set_real_ip_from", network(each))
