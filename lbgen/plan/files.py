"""Files that a topology names: their paths beside the configuration, and the DNS names of certificates."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lbgen.plan.acme import AcmeCertificate
from lbgen.plan.model import HostPattern
from lbgen.plan.tls import Certificate, File

if TYPE_CHECKING:
    from lbgen.spec import listener as written
    from lbgen.spec.load import Topology

FOLDER = "tls"  # inside an engine's folder


class Files:
    """Assigns each file of a topology a path beside the configuration: one for each file, distinct for equal names."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._taken: dict[str, tuple[str, ...]] = {}
        self._issued: dict[tuple[str, str | None, tuple[str, ...]], str] = {}

    def ca(self, written: str, field: str) -> File:
        """A bundle of certificates to verify others by."""
        return self._file(written, self._place((written,), PurePosixPath(written).name), field)

    def server_certificate(self, pair: written.Certificate, field: str) -> Certificate:
        """A certificate of a listener. Its names were checked before (LB220); OSError or ValueError otherwise."""
        names = pair.names or certificate_names(self._topology.base / pair.cert)
        return self._certificate(pair, field, tuple(_pattern(name) for name in names))

    def issued_certificate(self, acme: written.Acme, domains: tuple[str, ...], listener: str) -> AcmeCertificate:
        """The certificate that the agent obtains for a listener; one for all listeners that ask for the same."""
        field = f"listeners.{listener}.tls.acme"
        name = self._issued.setdefault((acme.directory, acme.email, domains), listener)
        cert = f"{FOLDER}/acme-{name}.crt"
        span = self._topology.span(field)
        pair = Certificate(
            File(cert, issued=True, field=field, span=span),
            File(f"{cert}.key", secret=True, issued=True, field=field, span=span),
            tuple(map(_pattern, domains)),
            field,
        )
        ca = None
        if acme.ca is not None:  # always copied, as the agent is no user that may read everything
            place = self._place((acme.ca,), PurePosixPath(acme.ca).name)
            ca = File(place, str(self._topology.base / acme.ca), field=f"{field}.ca", span=span)
        return AcmeCertificate(name, pair, domains, acme.directory, acme.email, ca)

    def client_certificate(self, pair: written.Certificate, field: str) -> Certificate:
        """A client certificate for endpoints; its names are not used."""
        return self._certificate(pair, field, ())

    def _certificate(self, pair: written.Certificate, field: str, names: tuple[HostPattern, ...]) -> Certificate:
        cert = self._place((pair.cert, pair.key), PurePosixPath(pair.cert).stem + ".crt")
        key = self._file(pair.key, f"{cert}.key", f"{field}.key", secret=True)
        return Certificate(self._file(pair.cert, cert, f"{field}.cert"), key, names, field)

    def _place(self, files: tuple[str, ...], name: str) -> str:
        safe = plain_name(name)
        number = 1
        place = f"{FOLDER}/{safe}"
        while self._taken.setdefault(place, files) != files:
            number += 1
            place = f"{FOLDER}/{number}-{safe}"
        return place

    def _file(self, written: str, place: str, field: str, *, secret: bool = False) -> File:
        span = self._topology.span(field)
        if written.startswith("/"):
            return File(written, secret=secret, field=field, span=span)
        return File(place, str(self._topology.base / written), secret, field=field, span=span)


def plain_name(name: str) -> str:
    """`name` as that of a file which no engine quotes: ASCII letters, digits and `._-`, `_` for the others."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in name)


def certificate_names(path: Path) -> tuple[str, ...]:
    """DNS names of the first certificate of a PEM file, lower-case. Raises OSError, or ValueError when it is none."""
    from cryptography import x509  # heavy, and only needed for TLS

    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(dict.fromkeys(name.lower() for name in names.value.get_values_for_type(x509.DNSName)))


def _pattern(name: str) -> HostPattern:
    return HostPattern(name[2:], wildcard=True) if name.startswith("*.") else HostPattern(name)
