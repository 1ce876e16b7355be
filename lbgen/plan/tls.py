"""TLS of listeners and pools, with files and ciphers."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from lbgen.diagnostics import NOWHERE, Diagnostic, EngineError, Span
from lbgen.plan.rules import HostPattern  # read at run time, as plans are saved
from lbgen.system_errors import remedy

# Mozilla's server side TLS, guideline 5.7, without the DHE suites, which neither BoringSSL nor Go has. The same list
# in the same order for all engines; TLS 1.3 brings its own three.
INTERMEDIATE = (
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
)
HYBRID = "X25519MLKEM768"
"""The curve that OpenSSL has from 3.5 on, and offers by itself then."""


class File(Struct, frozen=True):
    """A file that the topology names. `path` is absolute, or relative to the engine's folder.

    `source` is where `write` copies it from (relative paths), `text` what it writes instead; both None = it is
    referenced as it stands. `issued`: it comes from an ACME authority, and a runtime says where from. `field` and
    `span` say where the topology names it.
    """

    path: str
    source: str | None = None
    secret: bool = False
    field: str = ""
    span: Span = NOWHERE
    issued: bool = False
    text: str | None = None

    # It is the same file wherever the topology names it.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, File) and self._itself() == other._itself()

    def __hash__(self) -> int:
        return hash(self._itself())

    def __repr__(self) -> str:
        return f"File{self._itself()[:3]}"

    def _itself(self) -> tuple[str, str | None, bool, str | None]:
        return self.path, self.source, self.secret, self.text

    @property
    def is_copied(self) -> bool:
        """Whether `write` puts it into the engine's folder."""
        return self.source is not None or self.text is not None

    def content(self) -> bytes:
        """`text`, what is in `source`, or at `path` without both. Raises EngineError LB424 when it cannot be read."""
        if self.text is not None:
            return self.text.encode()
        path = Path(self.source or self.path)
        try:
            return path.read_bytes()
        except OSError as error:
            message = f"the file {path} cannot be read: {error.strerror}"
            raise EngineError(Diagnostic("LB424", message, self.span, self.field, remedy(error))) from None


class Certificate(Struct, frozen=True):
    """A chain and its key. `key.path` is `cert.path` + ".key" for copied files. `names` are the DNS names it holds,
    lower-case; a wildcard here covers exactly one label, as in certificates."""

    cert: File
    key: File
    names: tuple[HostPattern, ...]
    field: str


class ListenerTls(Struct, frozen=True):
    """`passthrough`: bytes are forwarded and only SNI is read; the other fields do not apply. The first certificate
    serves clients without SNI; a name in no certificate is refused in the handshake. `ciphers` (TLS 1.2, OpenSSL names)
    are empty when `min_version` is 1.3. `client_ca`: certificates of clients are verified; `client_required`: each
    client needs one."""

    passthrough: bool = False
    certificates: tuple[Certificate, ...] = ()
    min_version: str = "1.2"
    ciphers: tuple[str, ...] = INTERMEDIATE
    curves: tuple[str, ...] = ()  # those of the engine's library
    client_ca: File | None = None
    client_required: bool = False


class PoolTls(Struct, frozen=True):
    """TLS 1.2 or newer to every endpoint. `ca` None = the system's store. `server_name` is sent as SNI and must be in
    the certificate; None = each endpoint's own host (of an IP literal: the address must be in it, and no SNI is sent).
    `verify` False: any certificate is accepted. `certificate`: shown to the endpoint."""

    ca: File | None = None
    server_name: str | None = None
    certificate: Certificate | None = None
    verify: bool = True
