"""Signed tokens and their keys, for cases and stand-ins: a key of ours, known to everybody, and one that is foreign."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ISSUER, AUDIENCE = "https://login.example", "shop"
KEY = ec.derive_private_key(0x1BADC0DE, ec.SECP256R1())
FOREIGN = ec.derive_private_key(0xF0E1, ec.SECP256R1())
ED25519 = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_LATER = 4_102_444_800  # the year 2100
_SIZE = 32  # bytes of a coordinate


def token(claims: Mapping[str, Any] | None = None, made: str = "ES256", issuer: str = ISSUER) -> str:
    """A token of `issuer` with these claims beside the usual ones; None as a value leaves one out.

    `made`: the algorithm `ES256`, or `EdDSA` by a key of its own; `none` and `HS256` (with the public key as the
    secret) as attackers write them; `foreign`: signed by another key; `unsigned`: ES256 without its signature.
    """
    every = {"iss": issuer, "aud": AUDIENCE, "exp": _LATER, "sub": "ann", **(claims or {})}
    algorithm = "ES256" if made in ("foreign", "unsigned") else made
    head = {"alg": algorithm, "typ": "JWT", "kid": "ours"}
    text = f"{_json(head)}.{_json({name: value for name, value in every.items() if value is not None})}"
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signatures = {
        "ES256": lambda: _sign(KEY, text),
        "EdDSA": lambda: ED25519.sign(text.encode()),
        "foreign": lambda: _sign(FOREIGN, text),
        "HS256": lambda: hmac.new(public, text.encode(), hashlib.sha256).digest(),
    }
    return f"{text}.{_encode(signatures.get(made, bytes)())}"


def public_keys(private: EllipticCurvePrivateKey = KEY) -> str:
    """The set of keys (RFC 7517) with ours, or another one in its place."""
    numbers = private.public_key().public_numbers()
    x, y = (_encode(number.to_bytes(_SIZE, "big")) for number in (numbers.x, numbers.y))
    key = {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "ours", "x": x, "y": y}
    return json.dumps({"keys": [key]}, sort_keys=True)


def ed25519_keys() -> str:
    """The set of keys for tokens that are made by `EdDSA`."""
    x = _encode(ED25519.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
    key = {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "ours", "x": x}
    return json.dumps({"keys": [key]}, sort_keys=True)


def _sign(key: EllipticCurvePrivateKey, text: str) -> bytes:
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(_SIZE, "big") + s.to_bytes(_SIZE, "big")


def _json(data: Mapping[str, Any]) -> str:
    return _encode(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
