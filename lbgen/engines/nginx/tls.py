"""A listener's certificates and hosts -> server blocks by server name, and what each says about TLS.

nginx chooses a server block by SNI first, for the certificate, and by Host afterwards. So a block stands for every name
of the two: those of certificates, so that each shows the right one, and those of hosts, which refuse the handshake when
no certificate holds them. Names with a wildcard are regexes, tried in their order: nginx's own `*.` would cover any
depth and come before them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.nginx.view import Line
from lbgen.engines.text import Atom, Literal
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import HostPattern, HostTable, Listener
    from lbgen.plan.tls import Certificate, File, ListenerTls

_NAME = r"[a-z0-9._*:\[\]-]+"
_PATH = r"[^\x00-\x1f\x7f]+"


@record
class Face:
    """A server block: its names, the table of its rules and the certificate it shows (None: the handshake fails)."""

    names: tuple[Atom | Literal, ...]
    table: HostTable
    certificate: Certificate | None
    default: bool


def plain_face(table: HostTable) -> Face:
    """The block of a listener without TLS for one host."""
    return Face((Atom.of(_NAME, _server_name(table)),), table, None, default=table.host is None)


def faces(listener: Listener, tls: ListenerTls) -> tuple[Face, ...]:
    """The blocks of a listener with TLS, in the order in which their regexes must be tried."""
    tables = listener.hosts
    named = [name for cert in tls.certificates for name in cert.names]
    hosts = [table.host for table in tables if table.host is not None]
    shared: dict[tuple[int, int], list[Atom | Literal]] = {
        (len(tables) - 1, 0): []
    }  # without SNI: the first certificate
    refusing: dict[int, list[Atom | Literal]] = {}
    for name in dict.fromkeys([n for n in (*named, *hosts) if not n.wildcard]):
        at, cert = _table(tables, name.name), _certificate(tls, name.name)
        text = Atom.of(_NAME, _bracketed(name.name))
        (refusing.setdefault(at, []) if cert is None else shared.setdefault((at, cert), [])).append(text)
    for name in dict.fromkeys(n for n in named if n.wildcard):
        at, cert = _table(tables, f"*.{name.name}"), _certificate(tls, f"*.{name.name}", wildcard_only=True)
        if cert is not None:
            shared.setdefault((at, cert), []).append(_regex(rf"^[^.]+\.{re.escape(name.name)}$"))
    for at, table in enumerate(tables):  # longer wildcards come first
        if table.host is not None and table.host.wildcard:
            refusing.setdefault(at, []).append(_regex(rf"^.+\.{re.escape(table.host.name)}$"))
    last = len(tables) - 1
    refusing.setdefault(last, []).append(_regex("^."))
    found = [
        Face(tuple(names) or (Atom("_"),), tables[at], tls.certificates[cert], default=(at, cert) == (last, 0))
        for (at, cert), names in shared.items()
    ]
    # The order of the tables, so that what is refused for every other name comes last.
    return (*found, *(Face(tuple(refusing[at]), tables[at], None, default=False) for at in sorted(refusing)))


def lines(tls: ListenerTls, certificate: Certificate | None) -> Iterator[Line]:
    """The TLS directives of a server block."""
    if certificate is None:
        yield _line("ssl_reject_handshake", Atom("on"))
    else:
        yield _line("ssl_certificate", path(certificate.cert))
        yield _line("ssl_certificate_key", path(certificate.key))
    yield _line("ssl_protocols", *([Atom("TLSv1.2")] if tls.min_version == "1.2" else []), Atom("TLSv1.3"))
    if tls.ciphers:
        yield _line("ssl_ciphers", Atom.of(r"[A-Z0-9:-]+", ":".join(tls.ciphers)))
    yield _line("ssl_ecdh_curve", Atom.of(r"[A-Za-z0-9:-]+", ":".join(tls.curves)))
    if tls.client_ca is not None:
        yield _line("ssl_client_certificate", path(tls.client_ca))
        yield _line("ssl_verify_client", Atom("on" if tls.client_required else "optional"))
        yield _line("ssl_verify_depth", Atom("5"))
        # A resumed session is not verified again.
        yield _line("ssl_session_tickets", Atom("off"))


def unverified(tls: ListenerTls) -> Atom | None:
    """The variable that says that a client's certificate is not as asked."""
    if tls.client_ca is None:
        return None
    return Atom("$uncertified" if tls.client_required else "$unverified")


def path(file: File) -> Literal:
    """A file beside the configuration, or an absolute one."""
    if "$" in file.path:
        raise ValueError(f"nginx reads {file.path!r} as a variable")
    return Literal(file.path, "word")


def _line(name: str, *args: Atom | Literal) -> Line:
    return Line(Atom(name), args)


def _regex(text: str) -> Literal:
    return Literal(text, "regex")


def _table(tables: tuple[HostTable, ...], name: str) -> int:
    """The first table that covers the name: exact ones, then longer wildcards, the hostless one last."""
    return next(at for at, table in enumerate(tables) if table.host is None or table.host.covers(name))


def _certificate(tls: ListenerTls, name: str, *, wildcard_only: bool = False) -> int | None:
    """Exact before wildcard, the first listed wins."""

    def holds(pattern: HostPattern) -> bool:
        if pattern.wildcard:
            return name.partition(".")[2] == pattern.name
        return not wildcard_only and name == pattern.name

    for wildcard in (False, True):
        for at, certificate in enumerate(tls.certificates):
            if any(p.wildcard is wildcard and holds(p) for p in certificate.names):
                return at
    return None


def _server_name(table: HostTable) -> str:
    if table.host is None:
        return "_"
    return f"*.{table.host.name}" if table.host.wildcard else _bracketed(table.host.name)


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
