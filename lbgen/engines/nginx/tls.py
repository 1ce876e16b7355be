"""TLS of listeners: virtual servers by name, and their TLS directives.

nginx selects a virtual server by SNI for the certificate, then by Host. Names of certificates and of hosts therefore
both have one: the former present the right certificate, the latter reject the handshake when no certificate covers
them. Wildcards are regexes in their order, since nginx's own `*.` covers any depth and precedes regexes.
"""

from __future__ import annotations

import re

from msgspec import Struct

from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import Contributor, HttpServer, L4Server, Lines
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import HostPattern, HostTable, Listener
from lbgen.plan.tls import Certificate, File, ListenerTls

_NAME = r"[a-z0-9._*:\[\]-]+"


class VirtualServer(Struct, frozen=True, eq=False):
    """A server block: its names, its rules and its certificate (None rejects the handshake)."""

    names: tuple[Atom | Literal, ...]
    table: HostTable
    certificate: Certificate | None
    default: bool


def http_servers(listener: Listener) -> tuple[VirtualServer, ...]:
    """The server blocks of an L7 listener; without TLS one for each host."""
    if listener.tls is not None:
        return virtual_servers(listener, listener.tls)
    names = ((table, Atom.of(_NAME, _server_name(table))) for table in listener.hosts)
    return tuple(VirtualServer((name,), table, None, default=table.host is None) for table, name in names)


def virtual_servers(listener: Listener, tls: ListenerTls) -> tuple[VirtualServer, ...]:
    """The server blocks of a listener with TLS, in the order in which nginx must try their regexes."""
    tables = listener.hosts
    named = [name for cert in tls.certificates for name in cert.names]
    hosts = [table.host for table in tables if table.host is not None]
    # Names by table and certificate; clients without SNI get the first certificate.
    serving: dict[tuple[int, int], list[Atom | Literal]] = {(len(tables) - 1, 0): []}
    rejecting: dict[int, list[Atom | Literal]] = {}
    for name in dict.fromkeys([n for n in (*named, *hosts) if not n.wildcard]):
        at, cert = _table(tables, name.name), _certificate(tls, name.name)
        text = Atom.of(_NAME, _bracketed(name.name))
        (rejecting.setdefault(at, []) if cert is None else serving.setdefault((at, cert), [])).append(text)
    for name in dict.fromkeys(n for n in named if n.wildcard):
        at, cert = _table(tables, f"*.{name.name}"), _certificate(tls, f"*.{name.name}", wildcard_only=True)
        if cert is not None:
            serving.setdefault((at, cert), []).append(Literal(rf"^[^.]+\.{re.escape(name.name)}$", "regex"))
    for at, table in enumerate(tables):  # longer wildcards first
        if table.host is not None and table.host.wildcard:
            rejecting.setdefault(at, []).append(Literal(rf"^.+\.{re.escape(table.host.name)}$", "regex"))
    last = len(tables) - 1
    rejecting.setdefault(last, []).append(Literal("^.", "regex"))
    servers = [
        VirtualServer(tuple(names) or (Atom("_"),), tables[at], tls.certificates[cert], default=(at, cert) == (last, 0))
        for (at, cert), names in serving.items()
    ]
    # In the order of the tables, so that the one for all other names is last.
    return (
        *servers,
        *(VirtualServer(tuple(rejecting[at]), tables[at], None, default=False) for at in sorted(rejecting)),
    )


def _directives(tls: ListenerTls, certificate: Certificate | None, sessions: str) -> Lines:
    """The TLS directives of a server block. `sessions` is the zone of their cache, which the http and the stream block
    cannot share; zones of upstreams have the names of pools."""
    if certificate is None:
        yield directive("ssl_reject_handshake", "on")
    else:
        yield directive("ssl_certificate", file_path(certificate.cert))
        yield directive("ssl_certificate_key", file_path(certificate.key))
    yield directive("ssl_protocols", *(["TLSv1.2"] if tls.min_version == "1.2" else []), "TLSv1.3")
    if tls.ciphers:
        yield directive("ssl_ciphers", Atom.of(r"[A-Z0-9:-]+", ":".join(tls.ciphers)))
    if tls.curves:
        yield directive("ssl_ecdh_curve", Atom.of(r"[A-Za-z0-9:-]+", ":".join(tls.curves)))
    if tls.client_ca is not None:
        yield directive("ssl_client_certificate", file_path(tls.client_ca))
        yield directive("ssl_verify_client", "on" if tls.client_required else "optional")
        yield directive("ssl_verify_depth", "5")
        # nginx does not verify the client again when a session is resumed.
        yield directive("ssl_session_tickets", "off")
    elif certificate is not None:
        yield directive("ssl_session_cache", f"shared:{sessions}:10m")
        yield directive("ssl_session_timeout", "1d")


def file_path(file: File) -> Literal:
    """A path relative to the configuration, or an absolute one."""
    if "$" in file.path:
        raise ValueError(f"nginx reads {file.path!r} as a variable")
    return Literal(file.path, "word")


def _table(tables: tuple[HostTable, ...], name: str) -> int:
    """The first table that covers the name; tables are sorted exact, longer wildcards, no host."""
    return next(at for at, table in enumerate(tables) if table.host is None or table.host.covers(name))


def _certificate(tls: ListenerTls, name: str, *, wildcard_only: bool = False) -> int | None:
    """Exact names before wildcards; the first listed certificate wins."""

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


def _server(at: HttpServer) -> Lines:
    if at.listener.http2 and at.on.version.http2_directive:
        yield directive("http2", "on")
    if at.listener.tls is not None:
        yield from _directives(at.listener.tls, at.certificate, "tls~http")


def _stream(at: L4Server) -> Lines:
    tls = at.listener.tls
    if tls is not None and tls.passthrough:
        yield directive("ssl_preread", "on")
    elif tls is not None:
        yield directive("server_name", *at.names)
        yield from _directives(tls, at.certificate, "tls~stream")


TLS = Contributor(server=_server, stream=_stream)
