"""A port that takes traffic, and what guards it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ModelWrapValidatorHandler, SerializerFunctionWrapHandler, model_serializer, model_validator

from lbgen.spec.base import Strict, either_schema, needs_one_of
from lbgen.spec.problem import shortened, wrong_type
from lbgen.spec.values import ByteSize, Cidr, Count, Duration, FilePath, HostName, IpAddress, Name, Port

if TYPE_CHECKING:
    from typing import Self

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

PathsMode = Literal["strict", "normalize", "verbatim"]
PathsException = Literal["empty_segments", "encoded_slash", "encoded_unreserved"]


class Paths(Strict):
    """Which targets are let in: a word, or `{ allow: [...] }` = strict with exceptions."""

    mode: PathsMode = "strict"
    allow: list[PathsException] | None = Field(default=None, min_length=1)

    @model_validator(mode="wrap")
    @classmethod
    def _short(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, str):
            return handler({"mode": data})
        if not isinstance(data, dict | Paths):
            raise wrong_type("strict, normalize, verbatim or a mapping", data)
        return handler(data)

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> Any:  # noqa: ANN401  # text or a mapping
        return handler(self) if self.allow else self.mode

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return either_schema(handler(core_schema), {"enum": ["strict", "normalize", "verbatim"]})


class Access(Strict):
    """Who may come in, by the address of the client. `deny` is asked first; `allow` given = nobody else."""

    allow: list[Cidr] | None = None
    deny: list[Cidr] | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _some(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "allow", "deny", many=True, what="access")


class ClientTimeouts(Strict):
    """How long a client may take; 0 = no limit, None = not said here."""

    client_header: Duration | None = Field(default=None, description="for the whole head of a request")
    client_body: Duration | None = Field(default=None, description="longest silence inside a request's body")
    keepalive: Duration | None = Field(default=None, description="how long an idle connection is kept")


class Limits(Strict):
    """Sizes of what a client may send."""

    headers: ByteSize | None = Field(default=None, description="all headers of a request together")
    target: ByteSize | None = Field(default=None, description="the request target")


class Certificate(Strict):
    """A certificate chain and its key, as PEM files."""

    cert: FilePath
    key: FilePath
    names: list[HostName] | None = Field(
        default=None, min_length=1, description="server names it serves; read from the certificate when left out"
    )


class ClientCertificates(Strict):
    """What a client's certificate must be signed by."""

    ca: FilePath
    verify: Literal["required", "optional"] = "required"


class TlsDefaults(Strict):
    """What TLS listeners speak unless they say it themselves."""

    min_version: Literal["1.2", "1.3"] | None = None
    policy: Literal["modern", "intermediate"] | None = None


class ListenerTls(Strict):
    """How a listener speaks TLS. The first certificate serves clients that send no SNI."""

    mode: Literal["terminate", "passthrough"] = "terminate"
    certificates: list[Certificate] | None = Field(default=None, min_length=1)
    min_version: Literal["1.2", "1.3"] | None = None
    policy: Literal["modern", "intermediate"] | None = Field(
        default=None, description="versions and ciphers as Mozilla recommends them; intermediate unless said"
    )
    client: ClientCertificates | None = None


class Listener(Strict):
    """A port and how it is served."""

    port: Port
    address: IpAddress = Field(default="0.0.0.0", description='"::" is IPv4 and IPv6')  # noqa: S104  # the contract's
    tier: Name | None = Field(default=None, description="the tier that serves it, in a topology that has tiers")
    mode: Literal["l7", "l4"] = "l7"
    protocol: Literal["tcp", "udp"] | None = Field(default=None, description="of an l4 listener; tcp unless said")
    tls: ListenerTls | None = None
    http2: bool | None = None
    proxy_protocol: Literal["accept"] | None = None
    trusted_proxies: list[Cidr] = Field(
        default_factory=list, description="peers whose X-Forwarded-* and X-Request-Id are believed"
    )
    max_connections: Count | None = None
    paths: Paths | None = None
    access: Access | None = None
    limits: Limits | None = None
    timeouts: ClientTimeouts | None = None

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, data: object) -> object:
        if isinstance(data, int) and not isinstance(data, bool):
            raise wrong_type("a mapping", data, f"write {{ port: {shortened(str(data))} }}")
        return data
