"""What the oracle makes of a request's credentials: a refusal, or the fields that say who sends it."""

from __future__ import annotations

import base64
import binascii
import hashlib

from msgspec import Struct

from lbgen.plan.admission import Refusal
from lbgen.plan.auth import Auth, BasicAuth, JwtAuth, Scheme, User
from lbgen.plan.request import ParsedRequest, to_wire
from lbgen.plan.tokens import TokenError, claim, read_token


class Authentication(Struct, frozen=True):
    """`refusal` and the `challenge` of its answer, or None and the `identity` that the endpoint gets (None = a value
    that the oracle does not know). `unsure`: statuses that may come instead, where it cannot tell."""

    refusal: Refusal | None = None
    challenge: str = ""
    identity: tuple[tuple[str, str | None], ...] = ()
    unsure: tuple[int, ...] = ()


def authenticate(auth: Auth, request: ParsedRequest) -> Authentication:
    """What `auth` makes of the request."""
    if isinstance(auth, BasicAuth):
        return _basic(auth, request)
    if isinstance(auth, JwtAuth):
        return _jwt(auth, request)
    return Authentication()  # a service says the rest


def _basic(auth: BasicAuth, request: ParsedRequest) -> Authentication:
    challenge = f'Basic realm="{auth.realm}"'

    def refuse(reason: str) -> Authentication:
        return Authentication(Refusal((401,), reason), challenge)

    lines = request.lines("authorization")
    found = _credentials(lines[0]) if lines else None
    if found is None:
        return refuse("it has no user name and password")
    name, password = found
    user = next((user for user in auth.users if user.name.encode() == name), None)
    if user is None:
        return refuse("the users' file does not have this user")
    matches = _is_password(user, password)
    if matches is None:  # only engines compute such hashes
        return Authentication(unsure=(401,))
    return Authentication() if matches else refuse(f'it is not the password of "{user.name}"')


def _jwt(auth: JwtAuth, request: ParsedRequest) -> Authentication:
    lines = request.lines("authorization")
    scheme, _, token = (lines[0] if lines else "").partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise TokenError("it has no token")
        claims = read_token(token.strip(" "), auth)
    except TokenError as error:
        return Authentication(Refusal((401, 403) if error.audience else (401,), f"its token: {error}"), "Bearer")
    found = ((header, claim(claims, path)) for header, path in auth.claims)
    identity = tuple((header, to_wire(text)) for header, text in found if text is not None)
    return Authentication(identity=identity, unsure=() if auth.file_keys else (401, 403))


def _credentials(value: str) -> tuple[bytes, bytes] | None:
    """User name and password of an Authorization field (RFC 7617)."""
    scheme, _, encoded = value.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(" "), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None


def _is_password(user: User, password: bytes) -> bool | None:
    """Whether it is the user's; None where Python's library lacks the hash."""
    if user.scheme is not Scheme.SHA1:
        return None
    digest = base64.b64encode(hashlib.sha1(password, usedforsecurity=False).digest()).decode()
    return user.hash == f"{{SHA}}{digest}"
