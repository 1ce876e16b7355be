"""Sockets of a listener."""

from __future__ import annotations

from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import Contributor, L4Server, Lines
from lbgen.engines.text import Atom
from lbgen.plan.model import Listener, Protocol


def listen_addresses(listener: Listener) -> tuple[Atom, ...]:
    """`::` includes IPv4, on a socket of its own so that IPv4 peers do not appear as ::ffff:a.b.c.d."""
    if listener.address == "::":
        return (Atom(f"0.0.0.0:{listener.port}"), Atom(f"[::]:{listener.port}"))
    address = f"[{listener.address}]" if ":" in listener.address else listener.address
    return (Atom.of(r"[0-9a-fA-F.:\[\]]+", f"{address}:{listener.port}"),)


def listen_parameters(listener: Listener, *, http2: bool = False) -> tuple[Atom, ...]:
    """The parameters of `listen` except default_server; `http2` is one of them before 1.25."""
    options = " ssl" if listener.tls is not None and not listener.tls.passthrough else ""
    options += " http2" if http2 else ""
    options += " proxy_protocol" if listener.proxy_protocol else ""
    if listener.protocol is Protocol.UDP:
        options += " udp reuseport"  # with a socket per worker all datagrams of a client reach the same worker
    return tuple(Atom(f"{address.text}{options}") for address in listen_addresses(listener))


def _stream(at: L4Server) -> Lines:
    if at.listener.protocol is Protocol.UDP:
        yield directive("proxy_buffer_size", "64k")  # what of an answer exceeds the buffer is lost


UDP = Contributor(stream=_stream)
