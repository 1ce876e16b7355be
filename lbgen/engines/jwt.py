"""Keys of signed tokens: their PEM form, and algorithms that an engine cannot verify."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from lbgen.engines.api import Objection, refused
from lbgen.plan.auth import JsonWebKey, JwtAuth
from lbgen.plan.model import Plan


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
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # heavy, and only needed for tokens

    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
