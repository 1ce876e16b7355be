"""Temporary certificates for stand-ins and tests: two authorities, certificates of servers, endpoints and clients."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import rsa as rsa_keys
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from lbgen.runtime.common import tokens

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.x509 import Certificate, ExtensionType, GeneralName, Name

    Key = EllipticCurvePrivateKey | RSAPrivateKey

CA = "ca"
FOREIGN_CA = "foreign-ca"
CLIENT_CA = "client-ca"
ENDPOINT_NAME = "backend.internal"
LIFE = timedelta(days=90)


class Spec(Struct, frozen=True):
    """A certificate to be made: `names` are DNS names or IP literals, empty for a client."""

    name: str
    names: tuple[str, ...] = ()
    issuer: str = CA
    rsa: bool = False
    expired: bool = False

    @property
    def client(self) -> bool:
        return not self.names


# What case files and tests may name, as <name>.crt and <name>.key.
SPECS = (
    Spec("shop", ("shop.example", "www.shop.example")),
    Spec("api", ("api.example",), rsa=True),
    Spec("wildcard", ("*.wild.example", "wild.example")),
    Spec("exact", ("in.wild.example",)),
    Spec("endpoint", (ENDPOINT_NAME, "127.0.0.1", "::1")),
    Spec("endpoint-rsa", (ENDPOINT_NAME, "127.0.0.1", "::1"), rsa=True),
    Spec("wrong-name", ("other.internal",)),
    Spec("foreign", (ENDPOINT_NAME, "127.0.0.1"), issuer=FOREIGN_CA),
    Spec("expired", (ENDPOINT_NAME, "127.0.0.1"), expired=True),
    Spec("client", issuer=CLIENT_CA),
    Spec("client-rsa", issuer=CLIENT_CA, rsa=True),
    Spec("client-foreign", issuer=FOREIGN_CA),
    Spec("client-expired", issuer=CLIENT_CA, expired=True),
)


# What they may name as <name>.htpasswd: ann's password is `correct horse`, that of ben `p:ss`, written by htpasswd and
# `openssl passwd`. Every engine checks the hashes of `users`.
_BCRYPT = "$2y$05$0i5L8SixYMMbEl3M7TxyxecGMNc9C1qeJSdAkWtKTUqwg/27GbrzW"
_SHA1 = "{SHA}BXltnEOWwOOAntrs2bss7tc+pnY="
USERS = {
    "users": {"ann": "{SHA}L55TUjtiq8FBorTWAZ0jy6g129A=", "ben": _SHA1},
    "bcrypt": {"ann": _BCRYPT},
    "mixed": {"ann": _BCRYPT, "ben": _SHA1},
    "sha512": {
        "ann": "$6$XJBFe3DiBli7ed.b$uHZykWs5rh"
        "oM.ebtG82O0aC8HivkpcFq/CHDOs4ll3nMbiin7TwtNDyuVLZ4sgaODiXx0pdb53p3MYSZ.fDwL1"
    },
    "sha256": {"ann": "$5$HLX4zBCKH7YSazvB$TGViSp0CVyMd8QVicxRMoSIpf1H7o4t4SbOEAQwGlw0"},
    "apr1": {"ann": "$apr1$n.FYzmSv$L8lVtrW/KbFhyyGwoAlrN/"},
    "md5": {"ann": "$1$LHmHnsMU$zqNHRw4TRliRJgXiaOSJM1"},
}

_given: list[Path] = []


def use(folder: Path) -> None:
    """Make `temporary_certificates` return this folder, which must hold every certificate that is needed."""
    _given[:] = [folder]


def temporary_certificates() -> Path:
    """A folder with every certificate of `SPECS` and the three authorities' (`ca.crt` and so on), made once per process
    and removed at its end; or the one given to `use`."""
    return _given[0] if _given else _made()


@cache
def _made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lbgen-certificates-"))
    folder.chmod(0o755)  # engines run as another user
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make(folder, SPECS)
    for name, users in USERS.items():
        (folder / f"{name}.htpasswd").write_text("".join(f"{user}:{hash}\n" for user, hash in users.items()))
    (folder / "keys.jwks.json").write_text(tokens.public_keys())
    (folder / "ed25519.jwks.json").write_text(tokens.ed25519_keys())
    return folder


def make(folder: Path, specs: tuple[Spec, ...]) -> None:
    """Write `<name>.crt` and `<name>.key` for each, and the authorities' `.crt`."""
    authorities = {name: _authority(name) for name in (CA, FOREIGN_CA, CLIENT_CA)}
    for name, (_, certificate) in authorities.items():
        (folder / f"{name}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    for spec in specs:
        key, certificate = _issued(spec, *authorities[spec.issuer])
        (folder / f"{spec.name}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
        path = folder / f"{spec.name}.key"
        path.touch(mode=0o600)
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def write_self_signed(certificate: Path, key: Path, names: tuple[str, ...]) -> None:
    """Write a certificate for `names` (DNS names, IP literals), signed by its own key, and the key (mode 0600); PEM."""
    own, subject = _key(rsa=False), _subject(names[0])
    extensions: tuple[tuple[x509.ExtensionType, bool], ...] = (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.SubjectAlternativeName([_general(name) for name in names]), False),
    )
    key.touch(mode=0o600)
    key.write_bytes(own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificate.write_bytes(_signed(own, subject, own, subject, extensions).public_bytes(Encoding.PEM))


def _key(*, rsa: bool) -> Key:
    return rsa_keys.generate_private_key(65537, 2048) if rsa else ec.generate_private_key(ec.SECP256R1())


def _authority(name: str) -> tuple[Key, Certificate]:
    key = _key(rsa=False)
    subject = _subject(f"lbgen test {name}")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return key, _signed(
        key, subject, key, subject, ((x509.BasicConstraints(ca=True, path_length=0), True), (usage, True))
    )


def _issued(spec: Spec, issuer_key: Key, issuer: Certificate) -> tuple[Key, Certificate]:
    key = _key(rsa=spec.rsa)
    use = ExtendedKeyUsageOID.CLIENT_AUTH if spec.client else ExtendedKeyUsageOID.SERVER_AUTH
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.ExtendedKeyUsage([use]), False),
    ]
    if spec.names:
        extensions.append((x509.SubjectAlternativeName([_general(name) for name in spec.names]), False))
    return key, _signed(key, _subject(spec.name), issuer_key, issuer.subject, tuple(extensions), expired=spec.expired)


def _general(name: str) -> GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _subject(name: str) -> Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _signed(
    key: Key,
    subject: Name,
    issuer_key: Key,
    issuer: Name,
    extensions: tuple[tuple[ExtensionType, bool], ...],
    *,
    expired: bool = False,
) -> Certificate:
    now = datetime.now(UTC)
    begin = now - (2 * LIFE if expired else timedelta(hours=1))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(issuer_key, hashes.SHA256())
