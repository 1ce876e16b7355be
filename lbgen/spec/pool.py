"""Endpoints that are the same service, and how they are chosen, watched and reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field, ModelWrapValidatorHandler, SerializerFunctionWrapHandler, model_serializer, model_validator

from lbgen.spec.base import Strict, either_schema, needs_one_of
from lbgen.spec.listener import Certificate
from lbgen.spec.problem import bad, shortened, wrong_type
from lbgen.spec.quantities import StatusRange
from lbgen.spec.values import (
    AddressValue,
    CookieName,
    Count,
    Duration,
    FilePath,
    HeaderName,
    Name,
    PlainHost,
    Port,
    QueryName,
    Statuses,
    UrlTarget,
    Weight,
)

if TYPE_CHECKING:
    from typing import Self

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

BalanceMethod = Literal["round_robin", "least_connections", "random", "source_hash"]


class HashKey(Strict):
    """What requests of one kind have in common; exactly one is set."""

    header: HeaderName | None = None
    cookie: CookieName | None = None
    query: QueryName | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "header", "cookie", "query", what="hash")


class Balance(Strict):
    """How an endpoint is chosen: a word, or `{ hash: ... }`; exactly one is set."""

    method: BalanceMethod | None = None
    hash: HashKey | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _short(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, str):
            return handler({"method": data})
        if not isinstance(data, dict | Balance):
            raise wrong_type(f"{', '.join(get_args(BalanceMethod))} or a mapping", data)
        return needs_one_of(data, handler, "method", "hash", what="balance")

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> Any:  # noqa: ANN401  # text or a mapping
        return handler(self) if self.method is None else self.method

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return either_schema(handler(core_schema), {"enum": list(get_args(BalanceMethod))})


class Endpoint(Strict):
    """One server of a pool."""

    address: AddressValue = Field(description="host:port; a name is resolved while the engine runs")
    weight: Weight = Field(default=1, description="share of the traffic; 0 drains")
    backup: bool = Field(default=False, description="serves only when no other endpoint is up")

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, data: object) -> object:
        if isinstance(data, str):
            raise wrong_type("a mapping", data, f'write {{ address: "{shortened(data)}" }}')
        return data


class ActiveHealth(Strict):
    """Checks the proxy makes by itself: HTTP with `path`, else a connection."""

    path: UrlTarget | None = None
    port: Port | None = Field(default=None, description="where to check, if not at the endpoint's own port")
    interval: Duration = 2000
    timeout: Duration = 1000
    fall: Count = Field(default=3, description="failures in a row that take an endpoint out")
    rise: Count = Field(default=2, description="successes in a row that bring it back")
    expect: list[Statuses] = Field(default_factory=lambda: [StatusRange(200, 299)], min_length=1)


class PassiveHealth(Strict):
    """Failures seen in real traffic."""

    failures: Count = Field(description="failures in a row that take an endpoint out")
    eject_for: Duration


class Health(Strict):
    """How the proxy learns which endpoints are up."""

    active: ActiveHealth | None = None
    passive: PassiveHealth | None = None


class Queue(Strict):
    """Requests that wait for a free endpoint."""

    size: Count
    timeout: Duration


class Connections(Strict):
    """Connections to the endpoints."""

    keepalive: int | None = Field(default=None, ge=0, le=100_000, description="idle connections kept")
    max_per_endpoint: Count | None = None
    queue: Queue | None = None


class Sticky(Strict):
    """A cookie that brings a client back to its endpoint."""

    cookie: CookieName
    ttl: Duration | None = None
    secure: bool = False
    secret: FilePath | None = Field(
        default=None,
        description="file whose content is the key of the cookie's values, at least 16 bytes; left out: a key "
        "derived from the topology's name, which can be guessed",
    )


class PoolTls(Strict):
    """TLS to the endpoints; their certificates are verified unless `verify: false`."""

    ca: FilePath | None = None
    server_name: PlainHost | None = None
    certificate: Certificate | None = None
    verify: bool = True


class Pool(Strict):
    """Endpoints and how they are used."""

    endpoints: list[Endpoint] = Field(default_factory=list, min_length=1)
    tier: Name | None = Field(default=None, description="instead of endpoints: the replicas of that tier")
    listener: Name | None = Field(default=None, description="where they are asked; needed if the tier has several")
    balance: Balance | None = Field(default=None, description="round_robin unless said")
    health: Health | None = None
    connections: Connections | None = None
    sticky: Sticky | None = None
    tls: PoolTls | None = None
    protocol: Literal["http1", "http2", "grpc"] | None = None
    proxy_protocol: Literal["v1", "v2"] | None = None
    slow_start: Duration | None = Field(default=None, description="time over which a new endpoint gets its full share")
    stand_ins: bool | None = Field(
        default=None, description="whether `up` plays its endpoints; as long as they are no containers when left out"
    )

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, dict) and "listener" in data and "tier" not in data:
            raise bad("LB103", "listener is that of a tier", "add tier:", key="listener")
        return needs_one_of(data, handler, "endpoints", "tier", what="a pool")
