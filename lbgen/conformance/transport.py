"""The transport below HTTP: a PROXY header, TLS with its options, the HTTP version."""

from __future__ import annotations

import hashlib
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from lbgen.agent.proxy_header import proxy_header
from lbgen.plan.model import HostPattern, Listener
from lbgen.plan.request import Request
from lbgen.plan.tls import ListenerTls
from lbgen.runtime.common.certificates import temporary_certificates

if TYPE_CHECKING:
    import socket

_VERSIONS = {
    "1.0": ssl.TLSVersion.TLSv1,
    "1.1": ssl.TLSVersion.TLSv1_1,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}
CURVES = {"X25519": "X25519", "P-256": "prime256v1", "P-384": "secp384r1", "P-521": "secp521r1"}
"""The curves that every OpenSSL has, by their names in a topology."""
_ALERTS = ("TLSV1_ALERT", "TLSV13_ALERT", "SSLV3_ALERT", "TLSV1_UNRECOGNIZED_NAME")


class HandshakeError(ConnectionError):
    """The server ended the connection instead of shaking hands."""


class Handshake(Struct, frozen=True):
    """The result of a handshake: `version` such as 1.3, `names` of the server's certificate (empty if not verified) and
    `certificate`, its SHA-256."""

    version: str
    cipher: str
    alpn: str
    names: tuple[str, ...]
    certificate: str = ""


class ClientTls(Struct, frozen=True):
    """What the client offers. `sni` None = no server name. `certificate` is a name of `certificates.SPECS`, shown to
    the server. `ca` is a PEM file by which its certificate is verified (the name is not), "" = not at all. `ciphers`
    (OpenSSL) are of TLS 1.2. `curve` (of `CURVES`) is the only one for the key exchange, "" = those of the library."""

    sni: str | None = None
    certificate: str = ""
    ca: str = ""
    min: str = "1.2"
    max: str = "1.3"
    ciphers: str = ""
    curve: str = ""
    alpn: tuple[str, ...] = ()

    def wrap(self, sock: socket.socket) -> ssl.SSLSocket:
        """Shake hands. HandshakeError when the server ends it; ssl.SSLError when the client does."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED if self.ca else ssl.CERT_NONE
        if self.ca:
            context.load_verify_locations(self.ca)
        if self.certificate:
            folder = temporary_certificates()
            context.load_cert_chain(folder / f"{self.certificate}.crt", folder / f"{self.certificate}.key")
        if self.ciphers or self.min in ("1.0", "1.1"):
            context.set_ciphers(self.ciphers or "ALL:@SECLEVEL=0")
        if self.curve:
            context.set_ecdh_curve(CURVES[self.curve])
        context.minimum_version, context.maximum_version = _VERSIONS[self.min], _VERSIONS[self.max]
        if self.alpn:
            context.set_alpn_protocols(list(self.alpn))
        try:
            return context.wrap_socket(sock, server_hostname=self.sni)
        except (ssl.SSLError, ConnectionError) as error:
            if _from_peer(error):
                raise HandshakeError(f"no handshake: {error}") from error
            raise


def _from_peer(error: OSError) -> bool:
    """Whether the server ended it, by an alert or the connection, and not this client's own library."""
    reason = getattr(error, "reason", None) or ""
    ended = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)  # which one depends on the library's version
    return not isinstance(error, ssl.SSLError) or ended or reason.startswith(_ALERTS)


def handshake_of(sock: ssl.SSLSocket) -> Handshake:
    """The negotiated parameters of a TLS socket."""
    cipher = sock.cipher()
    shown: dict[str, Any] = sock.getpeercert() or {}
    names = tuple(str(value) for kind, value in shown.get("subjectAltName", ()) if kind == "DNS")
    version = (sock.version() or "").removeprefix("TLSv")
    certificate = hashlib.sha256(sock.getpeercert(binary_form=True) or b"").hexdigest()
    return Handshake(version, cipher[0] if cipher else "", sock.selected_alpn_protocol() or "", names, certificate)


def client_hello(name: str | None) -> bytes:
    """The first flight of a TLS client that asks for the server `name`."""
    context, out = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name or None).do_handshake()
    return out.read()


class Transport(Struct, frozen=True):
    """`proxy` bytes go first, then TLS, then HTTP/2 or HTTP/1.x."""

    proxy: bytes = b""
    tls: ClientTls | None = None
    http2: bool = False


PLAIN = Transport()


class TransportOptions(Struct, frozen=True):
    """What a case says about the transport; the rest follows from the listener.

    `tls` fields are those of `ClientTls`; False = plain bytes where TLS is expected. `proxy`: v1, v2, none, or the
    bytes of the header."""

    tls: dict[str, Any] | bool | None = None
    proxy: str | None = None

    def __post_init__(self) -> None:
        known = set(ClientTls.__struct_fields__)
        if isinstance(self.tls, dict) and (unknown := set(self.tls) - known):
            raise ValueError(f"tls: unknown keys {sorted(unknown)}")


DEFAULT = TransportOptions()


def without_verification(listener: Listener, request: Request | None = None) -> TransportOptions:
    """Options that do not verify the server, for certificates of a user. The server name is the requested host where a
    certificate holds it."""
    if listener.tls is None or listener.tls.passthrough:
        return DEFAULT
    name = None if request is None else host_of(request)
    return TransportOptions(
        tls={"ca": "", "sni": name} if name is not None and has_certificate_for(listener.tls, name) else {"ca": ""}
    )


def host_of(request: Request) -> str | None:
    """The host of the only Host line, as a server name."""
    found = [value for name, value in request.headers if name.lower() == "host"]
    return found[0].rpartition(":")[0] or found[0] if len(found) == 1 else None


def has_certificate_for(tls: ListenerTls, name: str) -> bool:
    """Whether a certificate serves clients of that name."""
    above = name.partition(".")[2]
    held = (known for certificate in tls.certificates for known in certificate.names)
    return any(known.name == (above if known.wildcard else name) for known in held)


def transport_for(listener: Listener, request: Request, options: TransportOptions = DEFAULT) -> Transport:
    """How to send `request` to `listener`: as it expects, unless `asked` says otherwise."""
    http2 = request.version == "2"
    proxy = b""
    how = options.proxy or ("v1" if listener.proxy_protocol else "none")
    if how != "none":
        proxy = _header(how, request.client, listener.port)
    expected = listener.tls is not None and not listener.tls.passthrough
    if options.tls is False or not (expected or options.tls):
        return Transport(proxy, None, http2)
    tls = ClientTls(alpn=("h2",) if http2 else ("http/1.1",), ca=str(temporary_certificates() / "ca.crt"))
    if listener.tls is not None and listener.tls.certificates:
        tls = replace(tls, sni=_name(listener.tls.certificates[0].names))
    if listener.tls is not None and listener.tls.client_required:
        tls = replace(tls, certificate="client")
    if isinstance(options.tls, dict):
        given = dict(options.tls)
        if "alpn" in given:
            given["alpn"] = tuple(given["alpn"])
        if given.get("ca"):
            given["ca"] = str(temporary_certificates() / f"{given['ca']}.crt")
        tls = replace(tls, **given)
    return Transport(proxy, tls, http2)


def _name(names: tuple[HostPattern, ...]) -> str | None:
    if not names:
        return None
    return f"any.{names[0].name}" if names[0].wildcard else names[0].name


def _header(how: str, client: str, port: int) -> bytes:
    """A PROXY header that says the connection came from `client` to `port`."""
    if how not in ("v1", "v2"):
        return how.encode("latin-1")
    return proxy_header(how, (client, 40000), ("::1" if ":" in client else "127.0.0.1", port))
