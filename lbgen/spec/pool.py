"""Pools: endpoints of one service, and how they are chosen, checked and connected to."""

from typing import Literal, Self, get_args

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from lbgen.spec.base import Inheritable, OrNone, OrWord, Strict, exactly_one, needs_one_of
from lbgen.spec.listener import Certificate
from lbgen.spec.network import Address
from lbgen.spec.quantities import StatusRange
from lbgen.spec.value_errors import invalid, shorten, wrong_type
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
    ServiceValue,
    Statuses,
    UrlTarget,
    Weight,
)

BalanceMethod = Literal["round_robin", "least_connections", "random", "source_hash"]


class HashKey(Strict):
    """The part of a request that is hashed; exactly one is set."""

    model_config = exactly_one("header", "cookie", "query")

    header: HeaderName | None = Field(
        default=None,
        description="requests with the same value of this header go to the same endpoint; no default",
        examples=["x-user"],
    )
    cookie: CookieName | None = Field(default=None, description="the same by a cookie; no default", examples=["user"])
    query: QueryName | None = Field(
        default=None, description="the same by a query parameter; no default", examples=["user"]
    )

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "header", "cookie", "query", what="hash")


class Balance(OrWord):
    """How an endpoint is chosen: a word, or `{ hash: ... }`; exactly one is set."""

    word = "method"
    words = get_args(BalanceMethod)
    choices, what = ("method", "hash"), "balance"

    model_config = exactly_one("method", "hash")

    method: BalanceMethod | None = Field(default=None, description="the short form is the word alone; no default")
    hash: HashKey | None = Field(
        default=None, description="by a part of the request; no default", examples=[{"header": "x-user"}]
    )


class Endpoint(Strict):
    """One server of a pool, or a Service of a Kubernetes cluster."""

    model_config = exactly_one("address", "service")

    address: AddressValue | None = Field(
        default=None,
        description="host:port; a name is resolved while the engine runs; needed unless service is given",
        examples=["10.0.2.10:8080"],
    )
    service: ServiceValue | None = Field(
        default=None,
        description="instead of address: name.namespace:port of a Service, headless for each pod to take its share, "
        "where the engine runs in its cluster; no default",
        examples=["api.default:8080"],
    )
    weight: Weight = Field(default=1, description="share of the traffic; 0 drains", examples=[3])
    backup: bool = Field(default=False, description="serves only when no other endpoint is up")

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, str):
            raise wrong_type("a mapping", data, f'write {{ address: "{shorten(data)}" }}')
        return needs_one_of(data, handler, "address", "service", what="an endpoint")

    @property
    def place(self) -> tuple[str, Address]:
        """The field that says where it is, and what it says."""
        if self.service is not None:
            return "service", self.service
        assert self.address is not None  # noqa: S101  # one of them is given
        return "address", self.address


def _success() -> list[StatusRange]:
    return [StatusRange(200, 299)]


class ActiveHealth(Strict):
    """Checks that the proxy makes: HTTP with `path`, else a connection."""

    path: UrlTarget | None = Field(
        default=None,
        description="path requested by GET; only a connection is opened when left out",
        examples=["/healthz"],
    )
    port: Port | None = Field(
        default=None, description="where to check; the endpoint's own port when left out", examples=[8081]
    )
    interval: Duration = Field(default=2000, description="time between two checks")
    timeout: Duration = Field(default=1000, description="time within which a check must succeed", examples=["1s"])
    fall: Count = Field(default=3, description="failures in a row that take an endpoint out", examples=[3])
    rise: Count = Field(default=2, description="successes in a row that bring it back", examples=[2])
    expect: list[Statuses] = Field(
        default_factory=_success,
        min_length=1,
        description="statuses that count as success",
        examples=[["200-299", 404]],
    )


class PassiveHealth(Strict):
    """Failures seen in real traffic."""

    failures: Count = Field(description="failures in a row that take an endpoint out", examples=[5])
    eject_for: Duration = Field(description="how long it stays out", examples=["10s"])


class Health(Strict):
    """How failed endpoints are detected."""

    active: ActiveHealth | None = Field(
        default=None,
        description="checks that the proxy makes by itself; none when left out",
        examples=[{"path": "/healthz", "interval": "2s"}],
    )
    passive: PassiveHealth | None = Field(
        default=None,
        description="failures seen in real traffic; not counted when left out",
        examples=[{"failures": 5, "eject_for": "10s"}],
    )


class Queue(Strict):
    """Requests that wait for a free endpoint."""

    size: Count = Field(description="requests that may wait", examples=[100])
    timeout: Duration = Field(description="how long one waits before it gets 503", examples=["1s"])


class Connections(Strict):
    """Connections to the endpoints."""

    keepalive: int | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="idle connections kept, per worker of the engine; 64 when left out",
        examples=[64],
    )
    keepalive_idle: Duration | None = Field(
        default=None,
        description="how long an unused connection is kept, shorter than the endpoints keep theirs; 4s when left out",
        examples=["4s"],
    )
    max_per_endpoint: Count | None = Field(
        default=None,
        description="requests (l4: connections) at a time to one endpoint; no limit when left out",
        examples=[200],
    )
    queue: Queue | None = Field(
        default=None,
        description="requests that wait for a free endpoint; none wait when left out",
        examples=[{"size": 100, "timeout": "1s"}],
    )


class Sticky(Strict):
    """A cookie that keeps a client at its endpoint."""

    cookie: CookieName = Field(description="the cookie's name", examples=["LB"])
    ttl: Duration | None = Field(
        default=None, description="how long the cookie lives; the session of the browser when left out", examples=["1h"]
    )
    secure: bool = Field(default=False, description="whether the cookie is sent over TLS only")
    secret: FilePath | None = Field(
        default=None,
        description="file whose content is the key of the cookie's values, at least 16 bytes; a key derived from the "
        "topology's name, which can be guessed, when left out",
        examples=["secrets/sticky.key"],
    )


class PoolTls(Strict):
    """TLS to the endpoints; their certificates are verified unless `verify: false`."""

    ca: FilePath | None = Field(
        default=None,
        description="PEM file with the authorities of the endpoints' certificates; the system's when left out",
        examples=["certs/ca.crt"],
    )
    server_name: PlainHost | None = Field(
        default=None,
        description="server name that is sent and verified; the endpoint's host when left out",
        examples=["backend.internal"],
    )
    certificate: Certificate | None = Field(
        default=None,
        description="certificate shown to the endpoints; none when left out",
        examples=[{"cert": "certs/proxy.crt", "key": "certs/proxy.key"}],
    )
    verify: bool = Field(default=True, description="whether the endpoints' certificates are verified")


class PoolSettings(Inheritable):
    """How endpoints are used: the fields of a pool that can have a default. None = not set."""

    balance: Balance | None = Field(
        default=None, description="how an endpoint is chosen; round_robin when left out", examples=["least_connections"]
    )
    health: OrNone[Health] = Field(
        default=None,
        description="how failed endpoints are detected; they are not when left out",
        examples=[{"active": {"path": "/healthz"}}],
    )
    connections: Connections | None = Field(
        default=None,
        description="connections to the endpoints; 64 idle ones are kept when left out",
        examples=[{"keepalive": 64}],
    )
    sticky: OrNone[Sticky] = Field(
        default=None,
        description="a cookie that keeps a client at its endpoint; none when left out",
        examples=[{"cookie": "LB", "ttl": "1h"}],
    )
    tls: OrNone[PoolTls] = Field(
        default=None, description="TLS to the endpoints; plain text when left out", examples=[{"ca": "certs/ca.crt"}]
    )
    protocol: Literal["http1", "http2", "grpc"] | None = Field(
        default=None, description="what the endpoints speak; http1 when left out", examples=["http2"]
    )
    proxy_protocol: OrNone[Literal["v1", "v2"]] = Field(
        default=None, description="a PROXY header in front of each connection; none when left out"
    )
    slow_start: Duration | None = Field(
        default=None,
        description="time in which a recovered endpoint grows to its full share; at once when left out",
        examples=["30s"],
    )
    stand_ins: bool | None = Field(
        default=None,
        description="whether `lbgen up` starts stand-ins for its endpoints; unless they are containers when left out",
    )


class PoolMembers(Strict):
    """The endpoints of a pool; its fields come before its settings."""

    endpoints: list[Endpoint] = Field(
        default_factory=list,
        min_length=1,
        description="its endpoints; needed unless tier is given",
        examples=[[{"address": "10.0.2.10:8080"}]],
    )
    tier: Name | None = Field(
        default=None, description="instead of endpoints: the replicas of that tier; no default", examples=["web"]
    )
    listener: Name | None = Field(
        default=None,
        description="listener of the tier that the pool leads to; needed if the tier has several, no default",
        examples=["inner"],
    )


class Pool(PoolSettings, PoolMembers):
    """Endpoints and how they are used."""

    model_config = exactly_one("endpoints", "tier")

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, dict) and "listener" in data and "tier" not in data:
            raise invalid("LB103", "listener is that of a tier", "add tier:", key="listener")
        return needs_one_of(data, handler, "endpoints", "tier", what="a pool")
