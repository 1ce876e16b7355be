"""Signed tokens as the contract reads them: who signed them, for whom, and for how long."""

from __future__ import annotations

import base64
import binascii
import json
import time
from typing import Any

from lbgen.plan.auth import JsonWebKey, JwtAuth

SKEW = 60
"""Seconds by which the clocks of an issuer and an engine may differ."""
Claims = dict[str, Any]


class TokenError(ValueError):
    """A token that does not hold; `audience`: it is for another one."""

    def __init__(self, message: str, *, audience: bool = False) -> None:
        super().__init__(message)
        self.audience = audience


def read_token(token: str, auth: JwtAuth) -> Claims:
    """The claims of a token that holds now; TokenError otherwise. Keys at a URL are not read: any signature holds."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenError("it has not three parts")
    head, claims = (_json(part) for part in parts[:2])
    if auth.file_keys and not any(_signs(key, head, f"{parts[0]}.{parts[1]}", parts[2]) for key in auth.file_keys):
        raise TokenError("no key of the issuer has signed it")
    now = time.time()
    expires, begins = claims.get("exp"), claims.get("nbf", 0)
    if not isinstance(expires, int | float) or now >= expires + SKEW:
        raise TokenError("it has expired, or never does")
    if not isinstance(begins, int | float) or now < begins - SKEW:
        raise TokenError("it is not valid yet")
    if claims.get("iss") != auth.issuer:
        raise TokenError("it is of another issuer")
    audience = claims.get("aud")
    if not set(audience if isinstance(audience, list) else [audience]) & set(auth.audiences):
        raise TokenError("it is for another audience", audience=True)
    return claims


def claim(claims: Claims, path: str) -> str | None:
    """A claim as the text of a header field; None where it is no text and no number, or has control characters."""
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        return None
    text = str(found)
    return None if any(char < " " or char == "\x7f" for char in text) else text


def _json(part: str) -> Claims:
    try:
        found = json.loads(_decode(part))
    except ValueError:
        raise TokenError("it is not made of JSON") from None
    if not isinstance(found, dict):
        raise TokenError("it is not made of mappings")
    return found


def _decode(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars="-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenError("it is not base64url") from None


def _signs(key: JsonWebKey, head: Claims, text: str, signature: str) -> bool:
    """Whether the key, by its own algorithm, has signed `text`."""
    from cryptography.exceptions import InvalidSignature  # heavy, and only needed for tokens
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    if head.get("alg") != key.algorithm or head.get("kid", key.kid) != (key.kid or head.get("kid")):
        return False
    digest = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}.get(key.algorithm[-3:])
    signed, public = _decode(signature), key.public_key()
    try:
        if isinstance(public, rsa.RSAPublicKey) and digest is not None:
            pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
            public.verify(signed, text.encode(), pss if key.algorithm[0] == "P" else padding.PKCS1v15(), digest)
        elif isinstance(public, ec.EllipticCurvePublicKey) and digest is not None:
            half = len(signed) // 2
            numbers = (int.from_bytes(part, "big") for part in (signed[:half], signed[half:]))
            public.verify(encode_dss_signature(*numbers), text.encode(), ec.ECDSA(digest))
        else:
            public.verify(signed, text.encode())  # type: ignore[call-arg]  # Ed25519
    except (InvalidSignature, ValueError):
        return False
    return True
