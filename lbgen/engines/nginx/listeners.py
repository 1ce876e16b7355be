"""Sockets of a listener, and who may state the client's address there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.names import network
from lbgen.engines.nginx.strings import directive
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def real_ip_from(networks: tuple[str, ...] = _EVERY_ADDRESS) -> Iterator[Line]:
    """The peers that may state the client's address."""
    for each in networks:
        yield directive("set_real_ip_from", network(each))
