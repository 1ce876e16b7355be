"""Keys of signed tokens: their PEM form, and algorithms that an engine cannot verify."""

from __future__ import annotations

import base64
import json
from functools import lru_cache
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.plan.auth import JwtAuth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.auth import JsonWebKey
    from lbgen.plan.model import Plan

SKEW = 60
"""Seconds by which the clocks of an issuer and an engine may differ."""


def jwt_auths(plan: Plan) -> list[JwtAuth]:
    """What routes ask of tokens, each once."""
    return list(dict.fromkeys(route.auth for route in plan.routes if isinstance(route.auth, JwtAuth)))


def object_to_algorithms(plan: Plan, engine: str, known: frozenset[str]) -> Iterator[Objection]:
    """A refusal for each file with a key for another algorithm."""
    for auth in jwt_auths(plan):
        if others := sorted({key.algorithm for key in auth.file_keys} - known):
            why = f"{engine} verifies no signatures of {', '.join(others)}; leave these keys out of the file"
            yield Objection(refused(why), f"{auth.field}.jwks")


@lru_cache(maxsize=256)
def pem(key: JsonWebKey) -> str:
    """The public key in PEM form."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # heavy, and only needed for tokens
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    data = json.loads(key.text)
    public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
    if data["kty"] == "RSA":
        public = rsa.RSAPublicNumbers(_number(data["e"]), _number(data["n"])).public_key()
    else:
        curves: dict[str, ec.EllipticCurve] = {
            "P-256": ec.SECP256R1(),
            "P-384": ec.SECP384R1(),
            "P-521": ec.SECP521R1(),
        }
        curve = curves[data["crv"]]
        public = ec.EllipticCurvePublicNumbers(_number(data["x"]), _number(data["y"]), curve).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")
