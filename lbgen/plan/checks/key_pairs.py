"""Certificates with keys of others, and certificates that are not valid today."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lbgen.diagnostics import Severity
from lbgen.spec.listener import Certificate

if TYPE_CHECKING:
    from cryptography import x509

    from lbgen.plan.checks.context import Context

_SOON = timedelta(days=30)  # automatic renewals are due by then
_KEY = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)


def check(context: Context) -> None:
    """LB427: each key is its certificate's. LB428 (a warning): each certificate of the chain is valid now, and
    for 30 days.

    LB211 reports files that cannot be read; kinds of keys that cryptography does not know are left to the engines.
    """
    for field, pair in context.values(Certificate).items():
        from cryptography import x509  # heavy, and only needed for TLS

        try:
            certificate = (context.topology.base / pair.cert).read_bytes()
            key = (context.topology.base / pair.key).read_bytes()
        except OSError:
            continue
        try:
            chain = x509.load_pem_x509_certificates(certificate)
        except ValueError:
            if pair.names is None and field.startswith("listeners."):  # LB220 reports it
                continue
            message = f'"{pair.cert}" holds no certificate in PEM form'
            context.add("LB427", f"{field}.cert", message, 'it begins with "-----BEGIN CERTIFICATE-----"')
            continue
        _check_key(context, field, pair, key, chain[0])
        now = datetime.now(UTC)
        for each in chain:
            _check_dates(context, field, pair, each, now)


def _check_key(context: Context, field: str, pair: Certificate, pem: bytes, certificate: x509.Certificate) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    def add(message: str, hint: str) -> None:
        context.add("LB427", f"{field}.key", message, hint)

    found = _KEY.search(pem)
    if found is None:
        add(f'"{pair.key}" holds no private key in PEM form', 'it begins with "-----BEGIN PRIVATE KEY-----"')
        return
    try:
        key = load_pem_private_key(found.group(), None).public_key()
        of_certificate = certificate.public_key()
    except TypeError:
        hint = f"remove the passphrase: openssl pkey -in {pair.key} -out plain.key"
        add(f'the private key in "{pair.key}" is encrypted, and engines cannot ask for its passphrase', hint)
    except ValueError:
        add(f'the private key in "{pair.key}" cannot be read', "create or copy it again")
    except UnsupportedAlgorithm:
        return  # a kind of key that some engine may support
    else:
        form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if key.public_bytes(*form) != of_certificate.public_bytes(*form):
            hint = "name the key of the first certificate in the file; in a chain the server's certificate comes first"
            add(f'the key "{pair.key}" does not belong to the certificate "{pair.cert}"', hint)


def _check_dates(context: Context, field: str, pair: Certificate, certificate: x509.Certificate, now: datetime) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    hint = "renew it; peers that verify it refuse the handshake"
    if now > end:
        when = f"expired on {end:%Y-%m-%d %H:%M}"
    elif now < begin:
        when = f"is not valid before {begin:%Y-%m-%d %H:%M}"
    elif end - now < _SOON:
        when = f"expires in {(end - now).days} days, on {end:%Y-%m-%d %H:%M}"
        hint = "renew it; then `lbgen reload` serves the new one"
    else:
        return
    message = f'"{pair.cert}": the certificate of {certificate.subject.rfc4514_string() or "(no subject)"} {when} (UTC)'
    context.add("LB428", f"{field}.cert", message, hint, Severity.WARNING)
