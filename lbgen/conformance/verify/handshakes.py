"""Cases of TLS handshakes: the certificate, version and protocol that must result, or a refusal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.corpus import NOWHERE
from lbgen.conformance.transport import CURVES, TransportOptions, without_verification
from lbgen.conformance.verify.substitute_certificates import FOREIGN
from lbgen.plan.model import Listener
from lbgen.plan.request import Request
from lbgen.plan.tls import Certificate, ListenerTls

NO_NAME = ("listener.tls.no_sni.other",)
_REFUSAL = ("listener.tls.client.refusal",)
_NOTHING: dict[str, Any] = {"unanswered": True}
_WEAK = "ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA"  # of TLS 1.2, which no policy has


def handshake_cases(listener: Listener, hit: Request) -> Iterator[Case]:
    """Cases of a listener that ends TLS, with a request that is answered there; their ids are for the caller."""
    tls = listener.tls
    if tls is None or tls.passthrough:
        return
    usual = without_verification(listener, hit).tls

    def case(clause: str, asked: dict[str, Any], expect: dict[str, Any], request: Request = hit) -> Case:
        tls = {**usual, **asked} if isinstance(usual, dict) else asked
        return Case("", clause, request, Expect(**expect), transport=TransportOptions(tls=tls))

    for name in names(tls):
        served = for_name(tls, name)
        shown = {"certificate": fingerprint(served)} if served is not None else {}
        # Where clients are known by certificates, the host that they ask for is of that name as well.
        request = hit if tls.client_ca is None else replace(hit, headers=(("Host", name), *hit.headers[1:]))
        yield case("5.tls.sni", {"sni": name}, {"tls": shown}, request)
    first = {"certificate": fingerprint(tls.certificates[0])}
    features = (*NO_NAME, *(("listener.tls.no_sni.kinds",) if _kinds_differ(tls) else ()))
    yield replace(case("5.tls.no-sni", {"sni": None}, {"tls": first}), features=features)
    unknown = case("5.tls.unknown", {"sni": NOWHERE}, {**_NOTHING, "no_handshake": True})
    yield replace(unknown, features=("listener.tls.no_sni.unknown",))
    old = {"1.2": ("1.0", "1.1"), "1.3": ("1.2", "1.2")}.get(tls.min_version)
    if old is not None:
        yield case("5.tls.version", {"min": old[0], "max": old[1]}, _NOTHING)
    yield case("5.tls.version", {"min": "1.3"}, {"tls": {"version": "1.3"}})
    if tls.ciphers:
        yield case("5.tls.policy", {"max": "1.2"}, {"tls": {"version": "1.2"}})
        yield case("5.tls.policy", {"max": "1.2", "ciphers": _WEAK}, {**_NOTHING, "no_handshake": True})
    for curve in CURVES if tls.curves else ():  # over TLS 1.3, where a certificate's own curve does not count
        shaken = {"tls": {}} if curve in tls.curves else {**_NOTHING, "no_handshake": True}
        yield case("5.tls.curves", {"min": "1.3", "curve": curve}, shaken)
    offers = ("h2", "http/1.1") if not listener.http2 else ("http/1.1",)
    yield case("5.tls.alpn", {"alpn": offers}, {"tls": {"alpn": "http/1.1"}})
    if tls.client_ca is not None:
        for name, refused in ((FOREIGN, True), ("client", False), ("", tls.client_required)):
            one = case("5.tls.client", {"certificate": name}, _NOTHING if refused else {})
            yield replace(one, features=_REFUSAL) if refused else one


def names(tls: ListenerTls) -> Iterator[str]:
    """A name of each kind that a certificate holds, once."""
    found = (name for certificate in tls.certificates for name in certificate.names)
    yield from dict.fromkeys(f"any.{name.name}" if name.wildcard else name.name for name in found)


def for_name(tls: ListenerTls, name: str) -> Certificate | None:
    """The certificate that a client who says `name` must get; None when several hold it alike."""
    exact = [x for x in tls.certificates if any(n.name == name and not n.wildcard for n in x.names)]
    above = name.partition(".")[2]
    wild = [x for x in tls.certificates if any(n.name == above and n.wildcard for n in x.names)]
    found = exact or wild
    return found[0] if len(found) == 1 else None


def _kinds_differ(tls: ListenerTls) -> bool:
    """Whether the first certificate has an RSA key and another one an ECDSA key."""
    first, *others = [isinstance(_read(each).public_key(), RSAPublicKey) for each in tls.certificates]
    return first and not all(others)


def fingerprint(certificate: Certificate) -> str:
    """SHA-256 of its first certificate, as `Handshake` tells it."""
    return hashlib.sha256(_read(certificate).public_bytes(Encoding.DER)).hexdigest()


def _read(certificate: Certificate) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate.cert.content())
