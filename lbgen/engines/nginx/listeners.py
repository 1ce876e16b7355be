"""A listener -> its sockets, and what all of its server blocks say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx import access_log, queues, tls
from lbgen.engines.nginx.paths import keeps_slashes
from lbgen.engines.nginx.sizes import buffers
from lbgen.engines.nginx.view import Line
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener

_CIDR = r"[0-9a-fA-F.:/]+"
_ANYBODY = ("0.0.0.0/0", "::/0")


def listen_addresses(listener: Listener) -> tuple[Atom, ...]:
    """`::` stands for IPv4 too, by a socket of its own, so that an IPv4 peer is not shown as ::ffff:a.b.c.d."""
    if listener.address == "::":
        return (Atom(f"0.0.0.0:{listener.port}"), Atom(f"[::]:{listener.port}"))
    address = f"[{listener.address}]" if ":" in listener.address else listener.address
    return (Atom.of(r"[0-9a-fA-F.:\[\]]+", f"{address}:{listener.port}"),)


def listen(listener: Listener, *, old: bool) -> tuple[Atom, ...]:
    """What follows `listen`, but default_server."""
    options = " ssl" if listener.tls is not None else ""
    options += " http2" if listener.http2 and old else ""
    options += " proxy_protocol" if listener.proxy_protocol else ""
    return tuple(Atom(f"{address.text}{options}") for address in listen_addresses(listener))


def blocks(listener: Listener) -> tuple[tls.Face, ...]:
    """The server blocks of the listener."""
    if listener.tls is None:
        return tuple(tls.plain_face(table) for table in listener.hosts)
    return tls.faces(listener, listener.tls)


def lines(
    listener: Listener, face: tls.Face, replaced: frozenset[str], *, old: bool, queued: bool = False
) -> tuple[Line, ...]:
    """Directives of a server block beside its rules."""
    found = tuple(_lines(listener, face, replaced, old=old))
    return (*found, *queues.server_lines()) if queued else found


def _lines(listener: Listener, face: tls.Face, replaced: frozenset[str], *, old: bool) -> Iterator[Line]:
    if listener.http2 and not old:
        yield Line(Atom("http2"), (Atom("on"),))
    if listener.tls is not None:
        yield from tls.lines(listener.tls, face.certificate)
    yield from access_log.server_lines(listener)
    if listener.underscores:  # with names that hold other characters, such as dots
        yield Line(Atom("underscores_in_headers"), (Atom("on"),))
        yield Line(Atom("ignore_invalid_headers"), (Atom("off"),))
    if keeps_slashes(listener):
        yield Line(Atom("merge_slashes"), (Atom("off"),))
    room = buffers(listener.limits)
    if room is not None:
        yield room
    if listener.proxy_protocol:
        yield from real_ip()
        yield Line(Atom("real_ip_header"), (Atom("proxy_protocol"),))
    elif listener.name in replaced:
        yield from real_ip(listener.trusted_proxies)
        yield Line(Atom("real_ip_header"), (Atom("X-Forwarded-For"),))
        yield Line(Atom("real_ip_recursive"), (Atom("on"),))


def unanswered(listener: Listener) -> tuple[Atom, ...]:
    """The variables that say that nginx would serve a connection which is to be closed."""
    unverified = None if listener.tls is None else tls.unverified(listener.tls)
    found = () if unverified is None else (unverified,)
    return (*found, Atom("$misintroduced")) if listener.proxy_protocol else found


def real_ip(networks: tuple[str, ...] = _ANYBODY) -> Iterator[Line]:
    """Whose word counts on who the client is."""
    for network in networks:
        yield Line(Atom("set_real_ip_from"), (Atom.of(_CIDR, network),))
