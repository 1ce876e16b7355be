"""The folder in which certificates from ACME authorities outlive engines: PEM files by name, the account's keys, the
tokens of challenges. Everything secret has mode 0600."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

TOKEN = re.compile("[A-Za-z0-9_-]+")
_SECRET, _PUBLIC = 0o600, 0o644


class Pair(Struct, frozen=True):
    """A chain and its key (PEM), and what the first certificate says: when it is valid (seconds of the epoch), its DNS
    names, whether its own key signed it."""

    chain: bytes
    key: bytes
    begins: float
    expires: float
    names: frozenset[str]
    self_signed: bool

    @classmethod
    def of(cls, chain: bytes, key: bytes) -> Pair:
        """Raises ValueError where they are no PEM, or the key is another certificate's."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        first = x509.load_pem_x509_certificates(chain)[0]
        if load_pem_private_key(key, None).public_key() != first.public_key():
            raise ValueError("the key is that of another certificate")
        begins, expires = first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp()
        return cls(chain, key, begins, expires, _names(first), first.issuer == first.subject)

    @property
    def renewal(self) -> float:
        """When two thirds of its life are over."""
        return self.begins + (self.expires - self.begins) * 2 / 3


def _names(certificate: Certificate) -> frozenset[str]:
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(name.lower() for name in found.value.get_values_for_type(x509.DNSName))


class CertificateStore:
    """`folder` exists, and belongs to the user of the agent. Methods raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens = folder / "challenges"
        self._lock: int | None = None

    def pair(self, name: str) -> Pair | None:
        """The certificate of that name; None where there is none that can be used."""
        try:
            return Pair.of((self.folder / name).read_bytes(), (self.folder / f"{name}.key").read_bytes())
        except (OSError, ValueError):
            return None

    def put_pair(self, name: str, chain: bytes, key: bytes) -> None:
        """Replace a certificate. Between its two files a crash leaves a pair that `pair` does not return."""
        put(self.folder / f"{name}.key", key, secret=True)
        put(self.folder / name, chain)

    def put_token(self, token: str, answer: str) -> None:
        """Have the server answer a challenge."""
        self.tokens.mkdir(mode=0o700, exist_ok=True)
        put(self.tokens / token, answer.encode())

    def remove_token(self, token: str) -> None:
        with suppress(FileNotFoundError):
            (self.tokens / token).unlink()

    def acquire(self) -> bool:
        """Whether this process is the one of several agents that places orders; once it is, it stays so."""
        if self._lock is None:
            descriptor = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _SECRET)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return False
            self._lock = descriptor
            for token in self.tokens.glob("*"):  # of an agent that was killed in an order
                token.unlink(missing_ok=True)
        return True

    def release(self) -> None:
        """Let another agent place orders."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def put(path: Path, content: bytes, *, secret: bool = False) -> None:
    """Replace a file atomically."""
    staged = path.with_name(f".{path.name}.new")
    staged.unlink(missing_ok=True)
    descriptor = os.open(staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _SECRET if secret else _PUBLIC)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    staged.replace(path)
