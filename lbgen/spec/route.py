"""Which requests, and what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, model_serializer, model_validator
from pydantic import SerializerFunctionWrapHandler as WrapHandler

from lbgen.spec.base import OneOrMore, Strict, either_schema, needs_one_of, no_case_twins
from lbgen.spec.listener import Access
from lbgen.spec.match import Match
from lbgen.spec.problem import wrong_type
from lbgen.spec.values import (
    BodyText,
    ByteSize,
    Cidr,
    Count,
    Duration,
    EditableHeader,
    HeaderName,
    HeaderText,
    HostName,
    HostPort,
    MediaType,
    Method,
    Name,
    Origin,
    Percent,
    PlainHost,
    Port,
    RateValue,
    RedirectStatus,
    RetryCause,
    Share,
    Status,
    UrlPath,
)

if TYPE_CHECKING:
    from typing import Self

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

EditedHeaders = Annotated[dict[EditableHeader, HeaderText], no_case_twins]


class HeaderEdits(Strict):
    """Applied as remove, set, add."""

    set: EditedHeaders = Field(default_factory=dict, description="replaces every line of that name")
    add: EditedHeaders = Field(default_factory=dict, description="appends a line")
    remove: list[EditableHeader] = Field(default_factory=list, description="drops every line of that name")


class ForwardTarget(Strict):
    """One share of a split."""

    pool: Name
    weight: Share = 1
    request_headers: HeaderEdits | None = None


class Rewrite(Strict):
    """What the endpoint sees instead. `prefix` replaces the matched prefix, `path` the whole path."""

    prefix: UrlPath | None = None
    path: UrlPath | None = None
    host: HostPort | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if data == {}:
            return needs_one_of(data, handler, "prefix", "path", "host", many=True, what="rewrite")
        return needs_one_of(data, handler, "prefix", "path", none=True, what="rewrite")


class Redirect(Strict):
    """Where the client is sent; what is left out stays as in the request. The query is always kept."""

    status: RedirectStatus = 302
    scheme: Literal["http", "https"] | None = None
    host: PlainHost | None = None
    port: Port | None = None
    path: UrlPath | None = Field(default=None, description="replaces the whole path")
    prefix: UrlPath | None = Field(default=None, description="replaces the matched prefix")

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, dict) and not data.keys() & {"scheme", "host", "port", "path", "prefix"}:
            return needs_one_of(data, handler, "scheme", "host", "port", "path", "prefix", many=True, what="redirect")
        return needs_one_of(data, handler, "path", "prefix", none=True, what="redirect")


class Respond(Strict):
    """An answer made by the proxy; text/plain unless `headers` say otherwise."""

    status: Status
    body: BodyText = ""
    headers: EditedHeaders = Field(default_factory=dict)


class Timeouts(Strict):
    """0 = no limit, None = not said here."""

    connect: Duration | None = Field(default=None, description="to an endpoint")
    response: Duration | None = Field(default=None, description="from request sent to response head, per try")
    idle: Duration | None = Field(default=None, description="longest silence of a body or tunnel, either direction")
    request: Duration | None = Field(default=None, description="all tries, to the last byte")


class Retries(Strict):
    """Extra tries, each at another endpoint when there is one."""

    max: Count = Field(description="extra tries")
    on: list[RetryCause] = Field(min_length=1)
    methods: Literal["idempotent", "all"] = "idempotent"
    budget: Percent | None = Field(default=None, description="retries as a share of active requests")


class RateKey(Strict):
    """What is counted together: `client_ip`, `route`, or `{ header: NAME }`; exactly one is set."""

    by: Literal["client_ip", "route"] | None = None
    header: HeaderName | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _short(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, str):
            return handler({"by": data})
        if not isinstance(data, dict | RateKey):
            raise wrong_type("client_ip, route or a mapping", data)
        return needs_one_of(data, handler, "by", "header", what="key")

    @model_serializer(mode="wrap")
    def _write(self, handler: WrapHandler) -> Any:  # noqa: ANN401  # text or a mapping
        return handler(self) if self.by is None else self.by

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return either_schema(handler(core_schema), {"enum": ["client_ip", "route"]})


class RateLimit(Strict):
    """How often; `burst` = how many may come at once."""

    rate: RateValue
    burst: Count | None = None
    key: RateKey


class Concurrency(Strict):
    """How many at a time."""

    max: Count
    key: RateKey


class Buffering(Strict):
    """Whether bodies are taken in whole before they are passed on; None = as the engine does."""

    request: bool | None = None
    response: bool | None = None


class Mirror(Strict):
    """A copy of requests whose answer is dropped."""

    pool: Name
    percent: Percent = 100.0


class Cors(Strict):
    """Which pages of other origins may call; preflights are answered by the proxy."""

    origins: list[Origin] = Field(min_length=1)
    methods: list[Method] = Field(default_factory=list)
    headers: list[HeaderName] = Field(default_factory=list)
    expose_headers: list[HeaderName] = Field(default_factory=list)
    credentials: bool = False
    max_age: Duration | None = None


class Compression(Strict):
    """Which responses are compressed."""

    types: list[MediaType] = Field(min_length=1)
    min_size: ByteSize | None = None


def _pool_as_targets(value: object) -> object:
    if isinstance(value, str):
        return [{"pool": value}]
    if isinstance(value, list):
        return [{"pool": item} if isinstance(item, str) else item for item in value]
    if isinstance(value, dict):
        raise wrong_type("the name of a pool or a list", value, "write a list: - { pool: NAME, weight: 1 }")
    return value


Forward = Annotated[list[ForwardTarget], BeforeValidator(_pool_as_targets), Field(min_length=1)]


class Route(Strict):
    """Exactly one of `forward`, `redirect`, `respond` is set. `hosts`, `match`, `listeners` None = not said."""

    name: Name
    listeners: list[Name] | None = Field(default=None, min_length=1, description="every l7 listener when left out")
    hosts: list[HostName] | None = Field(default=None, min_length=1, description="every host when left out; SNI on l4")
    match: list[Match] | None = Field(default=None, min_length=1, description="any of these; every path when left out")
    sources: list[Cidr] | None = Field(default=None, min_length=1, description="l4 only: addresses of clients")
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000, description="higher is tried first")
    forward: Forward | None = Field(default=None, description="a pool, or a list of pools with weights")
    redirect: Redirect | None = None
    respond: Respond | None = None
    rewrite: Rewrite | None = None
    timeouts: Timeouts | None = None
    retries: Retries | None = None
    rate_limit: RateLimit | None = None
    concurrency: Concurrency | None = None
    max_body: ByteSize | None = None
    buffering: Buffering | None = None
    request_headers: HeaderEdits | None = None
    response_headers: HeaderEdits | None = None
    mirror: Annotated[OneOrMore[Mirror], Field(min_length=1)] | None = None
    cors: Cors | None = None
    compression: Compression | None = None
    access: Access | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _one_action(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "forward", "redirect", "respond", what="a route")
