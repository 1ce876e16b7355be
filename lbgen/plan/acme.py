"""Certificates by ACME: what the agent obtains, and the challenges that it answers."""

from __future__ import annotations

from msgspec import Struct

from lbgen.plan.tls import Certificate, File  # read at run time, as plans are saved

CHALLENGE_PATH = "/.well-known/acme-challenge"
CHALLENGES = "acme-challenge"
"""The name of the route for challenges, and of the pool that is the agent."""


class AcmeCertificate(Struct, frozen=True):
    """One certificate to obtain; `name` is that of its (first) listener. `directory` is the URL of the authority, whose
    own certificate `ca` signed (None = an authority of the system's)."""

    name: str
    certificate: Certificate
    domains: tuple[str, ...]
    directory: str
    email: str | None = None
    ca: File | None = None


class Acme(Struct, frozen=True):
    """What the agent does: the certificates that it obtains, and its server of challenges on a loopback `port`, which
    also serves the files of `webroot` (absolute; None = none). A runtime sets `store`, the folder where certificates
    outlive engines."""

    port: int
    certificates: tuple[AcmeCertificate, ...] = ()
    webroot: str | None = None
    store: str | None = None
