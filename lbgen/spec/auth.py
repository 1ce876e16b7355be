"""Authentication: who may send a request, by a password, by a service that is asked, or by a signed token."""

import re
from typing import Annotated, NamedTuple, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from lbgen.spec.base import Strict, exactly_one, needs_one_of, no_case_twins
from lbgen.spec.http import parse_editable_header, parse_line, parse_login, parse_target
from lbgen.spec.network import Address, parse_address
from lbgen.spec.value_errors import invalid, require_text, shorten
from lbgen.spec.values import FilePath, HeaderName, HeaderText, Name, UrlTarget, parse_file

_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^/:?#\[\]@]+)(:[0-9]+)?(/.*)?", re.DOTALL)
_PORTS = {"http": 80, "https": 443}
_CLAIM = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_REALM = re.compile(r"[ !#-\[\]-~]+")  # what a quoted string of HTTP holds without escapes
# Fields that say who asks, or that the proxy makes by itself; an identity has a name of its own.
_TAKEN = frozenset({"authorization", "cookie", "proxy-authorization", "x-request-id"})


class ServiceUrl(NamedTuple):
    """A URL of a service: its address, and the path and query that are asked for ("" = none written)."""

    scheme: str
    address: Address
    target: str

    def __str__(self) -> str:
        port = self.address.port == _PORTS[self.scheme]
        host = str(self.address).rpartition(":")[0] if port else str(self.address)
        return f"{self.scheme}://{host}{self.target}"


def parse_service_url(value: object) -> ServiceUrl:
    """`http://auth:9091/verify`; LB104 for other schemes and for user names, LB115 and LB117 of parts."""
    written = require_text("a URL", value)
    found = _URL.fullmatch(written)
    if found is None:
        raise invalid("LB104", f'"{shorten(written)}" is not a URL of http or https', "write http://HOST:PORT/PATH")
    scheme, host, port, target = found.groups()
    address = parse_address(f"{host}{port or f':{_PORTS[scheme]}'}")
    return ServiceUrl(scheme, address, "" if target is None else parse_target(target))


def _parse_keys(value: object) -> ServiceUrl | str:
    written = require_text("a file or a URL", value)
    return parse_service_url(written) if "://" in written else parse_file(written)


def _parse_claim(value: object) -> str:
    claim = require_text("the name of a claim", value)
    if not _CLAIM.fullmatch(claim):
        hint = "letters, digits, _ and -; a dot leads into a nested claim, such as user.email"
        raise invalid("LB104", f'"{shorten(claim)}" is not the name of a claim', hint)
    return claim


def _parse_realm(value: object) -> str:
    realm = parse_line(value)
    if not _REALM.fullmatch(realm):
        hint = "at least one printable ASCII character, without quotes and backslashes"
        raise invalid("LB104", f'"{shorten(realm)}" is not a realm', hint)
    if realm == "off":
        raise invalid("LB104", '"off" is not a realm', "to ask nobody, write auth: none")  # nginx would ask nobody
    return realm


def _parse_identity_header(value: object) -> str:
    name = parse_editable_header(value)
    if name in _TAKEN or name.startswith("x-forwarded-"):
        raise invalid("LB119", f"{name} has another meaning than who the client is", "write a name such as x-user")
    if "_" in name:
        hint = f"write {name.replace('_', '-')}"
        raise invalid("LB119", f"{name} has an underscore, with which listeners drop fields", hint)
    return name


Login = Annotated[str, PlainValidator(parse_login), WithJsonSchema({"type": "string", "minLength": 1})]
Realm = Annotated[str, PlainValidator(_parse_realm), WithJsonSchema({"type": "string", "minLength": 1})]
Url = Annotated[
    ServiceUrl,
    PlainValidator(parse_service_url),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^https?://"}),
]
Keys = Annotated[
    ServiceUrl | FilePath,
    PlainValidator(_parse_keys),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
Claim = Annotated[
    str, PlainValidator(_parse_claim), WithJsonSchema({"type": "string", "pattern": f"^(?:{_CLAIM.pattern})$"})
]
IdentityHeader = Annotated[
    str, PlainValidator(_parse_identity_header), WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9-]+$"})
]


class BasicAuth(Strict):
    """User names and passwords that browsers ask for."""

    users: FilePath = Field(
        description="htpasswd file, NAME:HASH on each line; copied with mode 0600; relative paths start at the "
        "topology's folder",
        examples=["users.htpasswd"],
    )
    realm: Realm = Field(default="restricted", description="what browsers show beside the question", examples=["Staff"])


class ForwardAuth(Strict):
    """A service that is asked about each request: 2xx lets it pass, 401, 403 and redirects go to the client."""

    model_config = exactly_one("pool", "url")

    pool: Name | None = Field(default=None, description="the pool of the service; no default", examples=["sso"])
    url: Url | None = Field(
        default=None,
        description="instead of pool: its address and path, http://HOST:PORT/PATH; no default",
        examples=["http://127.0.0.1:9091/api/verify"],
    )
    path: UrlTarget | None = Field(
        default=None,
        description="what it is asked for, by GET; that of url, else /, when left out",
        examples=["/api/verify"],
    )
    request_headers: list[HeaderName] | None = Field(
        default=None,
        description="fields of the request that it gets beside X-Forwarded-Method, -Proto, -Host, -Uri and -For; "
        "authorization and cookie when left out",
        examples=[["cookie", "authorization"]],
    )
    response_headers: list[IdentityHeader] = Field(
        default_factory=list,
        description="fields of its answer that the endpoint gets; clients cannot send them",
        examples=[["x-auth-user", "x-auth-groups"]],
    )
    redirect_to: Login | None = Field(
        default=None,
        description="where a 401 sends the client instead, with 302, by an address or a path of this host that may "
        "hold placeholders; the answer of the service goes to the client when left out",
        examples=["https://login.example/?rd={scheme}://{host}{uri}"],
    )

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "pool", "url", what="forward of auth")


class JwtAuth(Strict):
    """Signed tokens (RFC 7519) in `Authorization: Bearer`; their signature, times, issuer and audience are checked."""

    issuer: HeaderText = Field(description="what `iss` must say", examples=["https://login.example"])
    audience: list[HeaderText] = Field(min_length=1, description="one of these must be in `aud`", examples=[["shop"]])
    jwks: Keys = Field(
        description="the issuer's public keys (RFC 7517): a file, or the URL that they are read from",
        examples=["keys.jwks.json"],
    )
    claims_to_headers: Annotated[dict[IdentityHeader, Claim], no_case_twins] = Field(
        default_factory=dict,
        description="claims that the endpoint gets, by field; clients cannot send these fields",
        examples=[{"x-user": "sub"}],
    )


class Auth(Strict):
    """Exactly one of `basic`, `forward` and `jwt`."""

    model_config = exactly_one("basic", "forward", "jwt")

    basic: BasicAuth | None = Field(
        default=None, description="by user name and password; no default", examples=[{"users": "users.htpasswd"}]
    )
    forward: ForwardAuth | None = Field(
        default=None, description="by the answer of a service; no default", examples=[{"url": "http://127.0.0.1:9091/"}]
    )
    jwt: JwtAuth | None = Field(
        default=None,
        description="by a signed token; no default",
        examples=[{"issuer": "https://login.example", "audience": ["shop"], "jwks": "keys.jwks.json"}],
    )

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "basic", "forward", "jwt", what="auth")

    @property
    def identity_headers(self) -> tuple[str, ...]:
        """The fields by which an endpoint gets to know who the client is."""
        return (
            *(self.forward.response_headers if self.forward else ()),
            *(self.jwt.claims_to_headers if self.jwt else ()),
        )
