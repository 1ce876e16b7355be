"""What a listener speaks (TLS, HTTP versions, PROXY) -> words of its `bind`, its certificates, who is turned away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.haproxy.lines import Line, Word, line
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.haproxy.lines import Maps
    from lbgen.plan.model import HostPattern, Listener
    from lbgen.plan.tls import ListenerTls

_INLINE = 20  # names in a condition; more go to a file


def bind_words(listener: Listener) -> tuple[Word, ...]:
    """What follows the address."""
    words: list[str | Word] = []
    if listener.proxy_protocol:
        words.append("accept-proxy")
    tls = listener.tls
    if tls is not None and not tls.passthrough:
        words += _tls_words(listener, tls)
    if listener.mode is Mode.L7 and not listener.http2:
        words.append("proto h1")
    return tuple(Atom(word) if isinstance(word, str) else word for word in words)


def _tls_words(listener: Listener, tls: ListenerTls) -> Iterator[str | Word]:
    yield f"ssl crt-list {listener.name}.crt-list ssl-min-ver TLSv{tls.min_version}"
    if tls.ciphers:
        yield f"ciphers {':'.join(tls.ciphers)}"
    yield f"curves {':'.join(tls.curves)}"
    if tls.client_ca is not None:
        yield f"verify {'required' if tls.client_required else 'optional'} ca-file"
        yield Literal(tls.client_ca.path)
    if listener.mode is Mode.L7:
        yield f"alpn {'h2,http/1.1' if listener.http2 else 'http/1.1'}"


def certificates(listener: Listener) -> RenderedFile | None:
    """Which certificate is for which names; the first one also serves who asks for none."""
    if listener.tls is None or listener.tls.passthrough:
        return None
    text, origins = ["# certificate, names"], [""]
    taken: set[HostPattern] = set()
    for number, certificate in enumerate(listener.tls.certificates):
        names = [name for name in certificate.names if name not in taken]
        taken.update(names)
        if names or not number:
            text.append(" ".join([certificate.cert.path, *map(str, names)]))
            origins.append(certificate.field)
    return RenderedFile(f"{listener.name}.crt-list", "\n".join(text) + "\n", tuple(origins))


def unknown_name_lines(listener: Listener, maps: Maps) -> list[Line]:
    """A name that no certificate holds: HAProxy shows the first certificate, so the connection ends behind the
    handshake. (Its `strict-sni` would turn away those who ask for no name, too.)"""
    tls = listener.tls
    if tls is None or tls.passthrough:
        return []
    names = {name for certificate in tls.certificates for name in certificate.names}
    exact = sorted(name.name for name in names if not name.wildcard)
    below = sorted(f".{name.name}" for name in names if name.wildcard)
    known = [
        _among(sample, values, purpose, maps, listener.field)
        for sample, values, purpose in (
            ("ssl_fc_sni,lower", exact, "names"),
            ("ssl_fc_sni,lower,regsub(^[^.]*,)", below, "names.below"),
        )
        if values
    ]
    return [
        line(f"{listener.field}.tls", "tcp-request session reject if { ssl_fc_has_sni }", *(f"!{k}" for k in known))
    ]


def _among(sample: str, values: list[str], purpose: str, maps: Maps, origin: str) -> str:
    if len(values) <= _INLINE:
        return f"{{ {sample} -m str {' '.join(values)} }}"
    listed = maps.file(f"{purpose}.lst", "names of certificates")
    for value in values:
        listed.add(value, "", origin)
    return f"{{ {sample} -m str -f {listed.name} }}"
