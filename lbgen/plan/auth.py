"""Authentication of requests: users with their hashes, a service that is asked, keys of signed tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.plan.values import Value  # read at run time, as plans are saved

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    PublicKey = EllipticCurvePublicKey | RSAPublicKey | Ed25519PublicKey

FORWARDED_REQUEST = (
    "x-forwarded-method",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-uri",
    "x-forwarded-for",
)
"""The fields about a request that the proxy makes for the service of a `ForwardAuth`."""
ASKED_WITH = ("authorization", "cookie")
"""The fields of a request that such a service gets where the topology names none."""
_NAMED = 3  # users in a line for people
_NAME = re.compile(r"[^:\x00-\x1f\x7f]+")
_WORD = r"[./0-9A-Za-z]"


class Scheme(StrEnum):
    """The kind of a password's hash, by the names of crypt(5)."""

    BCRYPT = "bcrypt"
    SHA512 = "sha512crypt"
    SHA256 = "sha256crypt"
    APR1 = "apr1"  # of Apache: MD5
    MD5 = "md5crypt"
    SHA1 = "sha1"  # {SHA}: not salted


_SCHEMES = (
    (Scheme.BCRYPT, re.compile(rf"\$2[aby]\$[0-9]{{2}}\${_WORD}{{53}}")),
    (Scheme.SHA512, re.compile(rf"\$6\$(rounds=[0-9]{{1,9}}\$)?[^$:\s]{{0,16}}\${_WORD}{{86}}")),
    (Scheme.SHA256, re.compile(rf"\$5\$(rounds=[0-9]{{1,9}}\$)?[^$:\s]{{0,16}}\${_WORD}{{43}}")),
    (Scheme.APR1, re.compile(rf"\$apr1\$[^$:\s]{{0,8}}\${_WORD}{{22}}")),
    (Scheme.MD5, re.compile(rf"\$1\$[^$:\s]{{0,8}}\${_WORD}{{22}}")),
    (Scheme.SHA1, re.compile(r"\{SHA\}[A-Za-z0-9+/]{27}=")),
)


class User(Struct, frozen=True):
    """A name and the hash of its password as in an htpasswd file; no message and no `repr` has the hash itself."""

    name: str
    hash: str
    scheme: Scheme

    @property
    def line(self) -> str:
        return f"{self.name}:{self.hash}"

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.hash.encode()).hexdigest()[:16]  # stacks are compared by the text of their plans
        return f"<User {self.name} ({self.scheme} {digest})>"


class BasicAuth(Struct, frozen=True, tag=True):
    """`users` have distinct names. 401 with `realm` for every other request. `name` is that of the users' file."""

    users: tuple[User, ...]
    realm: str
    name: str
    field: str

    @property
    def identity_headers(self) -> tuple[str, ...]:
        """The fields that no client can send."""
        return ()

    @property
    def htpasswd(self) -> str:
        """The users as an htpasswd file."""
        return "".join(f"{user.line}\n" for user in self.users)

    def describe(self) -> str:
        """One line for people, without hashes."""
        users = ", ".join(user.name for user in self.users[:_NAMED])
        more = f" and {len(self.users) - _NAMED} more" if len(self.users) > _NAMED else ""
        return f"basic: the password of {users}{more} ({self.name}, realm {self.realm})"


class ForwardAuth(Struct, frozen=True, tag=True):
    """`pool` is asked for `target` by GET with `request_headers` of the request and those of `FORWARDED_REQUEST`;
    `host` is the Host that it gets. A 2xx passes with `response_headers` of the answer,
    which replace those of the request. `redirect_to`: where a 401 leads instead, by facts of the request that no route
    decides. `connect` and `response` are the times that the service has, in milliseconds (0 = no limit)."""

    pool: str
    target: str
    host: str
    request_headers: tuple[str, ...]
    response_headers: tuple[str, ...]
    redirect_to: Value | None
    connect: int
    response: int
    field: str

    @property
    def identity_headers(self) -> tuple[str, ...]:
        """The fields that no client can send."""
        return self.response_headers

    def describe(self) -> str:
        """One line for people."""
        passed = f", and the endpoint gets its {', '.join(self.response_headers)}" if self.response_headers else ""
        return f"forward: pool {self.pool}, asked for {self.target}, has to admit the request{passed}"


class JsonWebKey(Struct, frozen=True):
    """A public key: `algorithm` is the only one that its tokens may have, `text` its canonical JSON (RFC 7517)."""

    kid: str | None
    algorithm: str
    text: str

    def public_key(self) -> PublicKey:
        """The key; ValueError where its numbers are none."""
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # heavy, and only needed for tokens

        data = json.loads(self.text)
        numbers = {name: _decode(data[name]) for name in _MEMBERS[data["kty"]] if name != "crv"}
        if data["kty"] == "OKP":
            return ed25519.Ed25519PublicKey.from_public_bytes(numbers["x"])
        n = {name: int.from_bytes(value, "big") for name, value in numbers.items()}
        if data["kty"] == "RSA":
            return rsa.RSAPublicNumbers(n["e"], n["n"]).public_key()
        curves: dict[str, ec.EllipticCurve] = {
            "P-256": ec.SECP256R1(),
            "P-384": ec.SECP384R1(),
            "P-521": ec.SECP521R1(),
        }
        return ec.EllipticCurvePublicNumbers(n["x"], n["y"], curves[data["crv"]]).public_key()


class KeysUrl(Struct, frozen=True):
    """Where an engine reads keys by itself: from `pool`, asked for `target` with that `host`."""

    pool: str
    target: str
    host: str


class JwtAuth(Struct, frozen=True, tag=True):
    """A token of `issuer` for one of `audiences`, signed by one of `keys`; its `claims` replace those fields."""

    issuer: str
    audiences: tuple[str, ...]
    keys: tuple[JsonWebKey, ...] | KeysUrl
    claims: tuple[tuple[str, str], ...]  # header, claim
    field: str

    @property
    def file_keys(self) -> tuple[JsonWebKey, ...]:
        """The keys that the plan has; none where an engine reads them by itself."""
        return () if isinstance(self.keys, KeysUrl) else self.keys

    @property
    def identity_headers(self) -> tuple[str, ...]:
        """The fields that no client can send."""
        return tuple(header for header, _ in self.claims)

    def describe(self) -> str:
        """One line for people."""
        keys = f"keys from pool {self.keys.pool}" if isinstance(self.keys, KeysUrl) else f"{len(self.keys)} keys"
        claims = "".join(f", {claim} as {header}" for header, claim in self.claims)
        return f"jwt: a token of {self.issuer} for {' or '.join(self.audiences)} ({keys}{claims})"


Auth = BasicAuth | ForwardAuth | JwtAuth


class AuthFileError(ValueError):
    """A file of users or keys that cannot be used; `line` counts from 1, None = the whole file."""

    def __init__(self, message: str, line: int | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.hint = hint


def read_users(path: Path) -> tuple[User, ...]:
    """The users of an htpasswd file, without comments and blank lines. Raises OSError, AuthFileError."""
    users: dict[str, User] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise AuthFileError("it is not UTF-8 text") from None
    for number, line in enumerate(text.split("\n"), 1):
        written = line.removesuffix("\r")
        if not written.strip() or written.startswith("#"):
            continue
        user = _user(written, number)
        if user.name in users:
            raise AuthFileError(f'the user "{user.name}" is there twice', number, "keep one line")
        users[user.name] = user
    if not users:
        raise AuthFileError("it has no user", hint="write one: htpasswd -c -B FILE NAME")
    return tuple(users.values())


def _user(line: str, number: int) -> User:
    name, colon, secret = line.partition(":")
    if not colon or not _NAME.fullmatch(name) or name != name.strip():
        raise AuthFileError("a line is NAME:HASH", number, "write it with htpasswd -B FILE NAME")
    for scheme, pattern in _SCHEMES:
        if pattern.fullmatch(secret):
            return User(name, secret, scheme)
    hint = f"write it again: htpasswd -B FILE {name}"
    raise AuthFileError(f'the password of "{name}" is no hash that lbgen knows', number, hint)


_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_ALGORITHMS = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    "EC": frozenset(_CURVES.values()),
    "OKP": frozenset({"EdDSA"}),
}
_MEMBERS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}


def read_keys(path: Path) -> tuple[JsonWebKey, ...]:
    """The keys of a JWKS file that verify signatures, public parts alone. Raises OSError, AuthFileError."""
    return parse_keys(path.read_bytes())


def parse_keys(content: bytes | str) -> tuple[JsonWebKey, ...]:
    """Like `read_keys`, of what is in the file. Raises AuthFileError."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise AuthFileError("it is not JSON") from None
    written = data.get("keys") if isinstance(data, dict) else None
    if not isinstance(written, list):
        raise AuthFileError("it is no set of keys", hint='a JWKS is { "keys": [...] }')
    keys = tuple(_key(each, index) for index, each in enumerate(written) if not _for_encryption(each))
    if not keys:
        raise AuthFileError("it has no key for signatures")
    if len({key.kid for key in keys}) != len(keys):
        raise AuthFileError("two of its keys have one kid, or none", hint="give each key a kid of its own")
    return keys


def _for_encryption(key: object) -> bool:
    return isinstance(key, dict) and key.get("use", "sig") != "sig"


def _key(key: object, index: int) -> JsonWebKey:
    where = f"keys[{index}]"
    if not isinstance(key, dict):
        raise AuthFileError(f"{where} is not a mapping")
    kind = key.get("kty")
    if kind == "oct":
        hint = "name the issuer's public keys: RSA, EC or OKP"
        raise AuthFileError(f"{where} is a shared secret, with which tokens can be made as well", hint=hint)
    if kind not in _MEMBERS or any(not isinstance(key.get(name), str) for name in _MEMBERS[kind]):
        raise AuthFileError(f"{where} is not a public key of RSA, EC or OKP")
    default = {"RSA": "RS256", "EC": _CURVES.get(key.get("crv", "")), "OKP": "EdDSA"}[kind]
    algorithm = key.get("alg", default)
    if algorithm not in _ALGORITHMS[kind] or (kind == "EC" and algorithm != default):
        raise AuthFileError(f"{where} has the algorithm {algorithm}, which its kind does not sign with")
    if kind == "OKP" and key["crv"] != "Ed25519":
        raise AuthFileError(f"{where} has the curve {key['crv']}, and only Ed25519 signs")
    kid = key.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise AuthFileError(f"{where}.kid is not text")
    public = {"kty": kind, "alg": algorithm, "use": "sig", **{name: key[name] for name in _MEMBERS[kind]}}
    if kid is not None:
        public["kid"] = kid
    made = JsonWebKey(kid, algorithm, json.dumps(public, sort_keys=True))
    try:
        made.public_key()
    except ValueError:
        raise AuthFileError(f"{where} holds no key: its numbers are wrong") from None
    return made


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
