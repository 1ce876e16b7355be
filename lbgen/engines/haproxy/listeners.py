"""What a listener speaks (TLS, HTTP versions, PROXY) -> words of its `bind`, and its certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.haproxy.statements import Word
    from lbgen.plan.model import HostPattern, Listener
    from lbgen.plan.tls import ListenerTls


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
    # Else the first certificate would be shown to those who ask for a name that none of them holds.
    yield f"ssl crt-list {listener.name}.crt-list strict-sni ssl-min-ver TLSv{tls.min_version}"
    if tls.ciphers:
        yield f"ciphers {':'.join(tls.ciphers)}"
    yield f"curves {':'.join(tls.curves)}"
    if tls.client_ca is not None:
        yield f"verify {'required' if tls.client_required else 'optional'} ca-file"
        yield Literal(tls.client_ca.path)
    if listener.mode is Mode.L7:
        yield f"alpn {'h2,http/1.1' if listener.http2 else 'http/1.1'}"


def certificates(listener: Listener) -> RenderedFile | None:
    """Which certificate is for which names."""
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
