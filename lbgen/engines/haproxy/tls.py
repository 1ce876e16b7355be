"""TLS of a listener: options of its `bind` line, and the list of its certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.haproxy.statements import Statement, acl, statement
from lbgen.engines.text import Literal
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.haproxy.maps import Maps
    from lbgen.engines.haproxy.statements import Word
    from lbgen.plan.model import HostPattern, Listener
    from lbgen.plan.tls import Certificate, ListenerTls


def tls_options(listener: Listener, tls: ListenerTls) -> Iterator[str | Word]:
    """What makes a `bind` line speak TLS."""
    yield f"ssl crt-list {listener.name}.crt-list ssl-min-ver TLSv{tls.min_version}"
    if tls.ciphers:
        yield f"ciphers {':'.join(tls.ciphers)}"
    if tls.curves:
        yield f"curves {':'.join(tls.curves)}"
    if tls.client_ca is not None:
        yield f"verify {'required' if tls.client_required else 'optional'} ca-file"
        yield Literal(tls.client_ca.path)
    if listener.mode is Mode.L7:
        yield f"alpn {'h2,http/1.1' if listener.http2 else 'http/1.1'}"


def reject_unknown_names(tls: ListenerTls, field: str, maps: Maps) -> Statement:
    """Close connections of clients that ask for a name which no certificate has: HAProxy gives them the first one, as
    it should those without a name. Its `strict-sni` would refuse both."""
    every = dict.fromkeys(name for certificate in tls.certificates for name in certificate.names)
    exact = [name.name for name in every if not name.wildcard]
    above = [f".{name.name}" for name in every if name.wildcard]
    known = [
        maps.is_one_of(sample, names, purpose, dict.fromkeys(names, field))
        for sample, names, purpose in (
            ("ssl_fc_sni,lower", exact, "names"),
            ("ssl_fc_sni,lower,regsub(^[^.]*,)", above, "domains"),
        )
        if names
    ]
    return statement(
        "tcp-request session reject", when=[acl("ssl_fc_sni -m found"), *(~each for each in known)], origin=field
    )


def certificates_apart(listeners: Iterable[Listener]) -> Iterator[Certificate]:
    """Certificates of listeners whose keys HAProxy does not find by itself, at `<certificate>.key`; each once."""
    every = (each for listener in listeners if listener.tls is not None for each in listener.tls.certificates)
    by_path = {each.cert.path: each for each in every}
    yield from (each for each in by_path.values() if each.key.path != f"{each.cert.path}.key")


def certificate_list(listener: Listener) -> RenderedFile | None:
    """The crt-list: each certificate with the names that it serves; None for a listener that does not terminate TLS."""
    if listener.tls is None or listener.tls.passthrough:
        return None
    lines, origins = ["# certificate, names"], [""]
    assigned: set[HostPattern] = set()
    for number, certificate in enumerate(listener.tls.certificates):
        names = [name for name in certificate.names if name not in assigned]
        assigned.update(names)
        if names or not number:
            lines.append(" ".join([certificate.cert.path, *map(str, names)]))
            origins.append(certificate.field)
    return RenderedFile(f"{listener.name}.crt-list", "\n".join(lines) + "\n", tuple(origins))
