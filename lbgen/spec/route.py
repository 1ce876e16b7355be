"""Routes: the requests they match, and what is done with them."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, model_validator

from lbgen.spec.auth import Auth
from lbgen.spec.base import (
    Inheritable,
    OneOrMore,
    OrNone,
    ShortForm,
    Strict,
    exactly_one,
    needs_one_of,
    no_case_twins,
    not_both,
)
from lbgen.spec.error_pages import ErrorPages
from lbgen.spec.listener import Access
from lbgen.spec.match import Match
from lbgen.spec.policy import Buffering, Compression, Concurrency, Cors, Mirror, RateLimit, Retries, Timeouts
from lbgen.spec.value_errors import wrong_type
from lbgen.spec.values import (
    BodyText,
    ByteSize,
    Cidr,
    EditableHeader,
    HeaderText,
    HostName,
    HostPort,
    HostTemplate,
    Location,
    Name,
    PathTemplate,
    Port,
    RedirectStatus,
    Share,
    Status,
    UrlPath,
)

EditedHeaders = Annotated[dict[EditableHeader, HeaderText], no_case_twins]


class HeaderEdits(Strict):
    """Applied as remove, set, add."""

    set: EditedHeaders = Field(
        default_factory=dict, description="replaces every line of that name", examples=[{"x-env": "prod"}]
    )
    add: EditedHeaders = Field(default_factory=dict, description="appends a line", examples=[{"x-tag": "a"}])
    remove: list[EditableHeader] = Field(
        default_factory=list, description="drops every line of that name", examples=[["x-debug"]]
    )


class ForwardTarget(Strict):
    """One share of a split."""

    pool: Name = Field(description="a name of pools", examples=["app"])
    weight: Share = Field(default=1, description="its share of the requests", examples=[5])
    request_headers: HeaderEdits | None = Field(
        default=None,
        description="edits for this share alone, after those of the route; none when left out",
        examples=[{"set": {"x-version": "2"}}],
    )


class Rewrite(Strict):
    """Changes of path and host for the endpoint. `prefix` replaces the matched prefix, `path` the whole path."""

    model_config = not_both("prefix", "path")

    prefix: UrlPath | None = Field(
        default=None, description="replaces the matched prefix; it stays when left out", examples=["/v1"]
    )
    path: UrlPath | None = Field(
        default=None, description="replaces the whole path; it stays when left out", examples=["/index.html"]
    )
    host: HostPort | None = Field(
        default=None, description="replaces the Host header; it stays when left out", examples=["api.internal"]
    )

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if data == {}:
            return needs_one_of(data, handler, "prefix", "path", "host", many=True, what="rewrite")
        return needs_one_of(data, handler, "prefix", "path", none=True, what="rewrite")


class Redirect(Strict):
    """Where the client is sent; what is left out stays as in the request, the query included. `to` is the whole address
    in place of these parts."""

    model_config = not_both("prefix", "path")

    status: RedirectStatus = Field(default=302, description="301 and 308 are permanent; 307 and 308 keep the method")
    scheme: Literal["http", "https"] | None = Field(
        default=None, description="the request's when left out", examples=["https"]
    )
    host: HostTemplate | None = Field(
        default=None, description="the request's when left out; may hold placeholders", examples=["shop.example"]
    )
    port: Port | None = Field(
        default=None, description="the given scheme's own, else the listener's, when left out", examples=[8443]
    )
    path: PathTemplate | None = Field(
        default=None,
        description="replaces the whole path; may hold placeholders; the request's when left out",
        examples=["/new"],
    )
    prefix: UrlPath | None = Field(
        default=None, description="replaces the matched prefix; it stays when left out", examples=["/v2"]
    )
    to: Location | None = Field(
        default=None,
        description="the whole address, with placeholders, and with a query only where it says so; no default",
        examples=["https://new.example{uri}"],
    )

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, dict) and not data.keys() & {"scheme", "host", "port", "path", "prefix", "to"}:
            keys = ("scheme", "host", "port", "path", "prefix", "to")
            return needs_one_of(data, handler, *keys, many=True, what="redirect")
        if isinstance(data, dict) and "to" in data:
            beside = next((key for key in ("scheme", "host", "port", "path", "prefix") if key in data), "to")
            return needs_one_of(data, handler, *dict.fromkeys(("to", beside)), what="redirect")
        return needs_one_of(data, handler, "path", "prefix", none=True, what="redirect")


class Respond(Strict):
    """A response of the proxy; text/plain unless `headers` say otherwise."""

    status: Status = Field(description="the status of the answer", examples=[200])
    body: BodyText = Field(default="", description="its body", examples=["ok\n"])
    headers: EditedHeaders = Field(
        default_factory=dict,
        description="its headers; content-type is text/plain unless given",
        examples=[{"content-type": "text/html"}],
    )


def _pool_as_targets(value: object) -> object:
    if isinstance(value, str):
        return [{"pool": value}]
    if isinstance(value, list):
        return [{"pool": item} if isinstance(item, str) else item for item in value]
    if isinstance(value, dict):
        raise wrong_type("the name of a pool or a list", value, "write a list: - { pool: NAME, weight: 1 }")
    return value


Forward = Annotated[
    list[Annotated[ForwardTarget, ShortForm({"type": "string"})]],
    Field(min_length=1),
    BeforeValidator(_pool_as_targets),
    ShortForm({"type": "string"}),
]


class RoutePolicies(Inheritable):
    """What is done with requests, whichever route they take: the fields of a route that a policy can hold. None = not
    set."""

    timeouts: Timeouts | None = Field(
        default=None,
        description="how long endpoints may take; the topology's when left out",
        examples=[{"response": "10s"}],
    )
    retries: OrNone[Retries] = Field(
        default=None, description="extra tries; none when left out", examples=[{"max": 1, "on": ["connect_failure"]}]
    )
    rate_limit: OrNone[RateLimit] = Field(
        default=None,
        description="limit of requests per time; none when left out",
        examples=[{"rate": "10/s", "burst": 20, "key": "client_ip"}],
    )
    concurrency: OrNone[Concurrency] = Field(
        default=None,
        description="limit of requests at a time; none when left out",
        examples=[{"max": 100, "key": "route"}],
    )
    max_body: ByteSize | None = Field(
        default=None, description="longer bodies get 413; the topology's when left out", examples=["10MiB"]
    )
    buffering: Buffering | None = Field(
        default=None,
        description="whether bodies are buffered whole; the topology's when left out",
        examples=[{"request": False}],
    )
    request_headers: HeaderEdits | None = Field(
        default=None,
        description="edits of what the endpoint gets; none when left out",
        examples=[{"set": {"x-env": "prod"}}],
    )
    response_headers: HeaderEdits | None = Field(
        default=None,
        description="edits of what the client gets; none when left out",
        examples=[{"remove": ["x-powered-by"]}],
    )
    mirror: OrNone[OneOrMore[Mirror]] = Field(
        default=None,
        description="copies of requests whose answer is dropped; none when left out",
        examples=[{"pool": "shadow", "percent": 10}],
    )
    cors: OrNone[Cors] = Field(
        default=None,
        description="pages of other origins that may call; none when left out",
        examples=[{"origins": ["https://shop.example"], "methods": ["GET"]}],
    )
    compression: OrNone[Compression] = Field(
        default=None,
        description="which responses are compressed; none when left out",
        examples=[{"types": ["application/json"]}],
    )
    access: Access | None = Field(
        default=None,
        description="clients that are admitted, by address; all when left out",
        examples=[{"allow": ["10.0.0.0/8"]}],
    )
    auth: OrNone[Auth] = Field(
        default=None,
        description="who may send requests; the listener's when left out, `none` for all",
        examples=[{"basic": {"users": "users.htpasswd"}}],
    )
    error_pages: OrNone[ErrorPages] = Field(
        default=None,
        description="what clients get instead of the engine's own text, by status; the listener's when left out",
        examples=[{"5xx": {"body": '{"error":"unavailable"}', "content_type": "application/json"}}],
    )


class RouteAction(Strict):
    """The requests of a route, and where they go; its fields come before those of its policies."""

    name: Name = Field(description="its name in logs, findings and stats", examples=["api"])
    listeners: list[Name] | None = Field(
        default=None,
        min_length=1,
        description="listeners it is attached to; every l7 listener when left out, an l4 route must name its own",
        examples=[["web"]],
    )
    hosts: list[HostName] | None = Field(
        default=None,
        min_length=1,
        description="names without port; *.x covers any depth; SNI on l4; every host when left out",
        examples=[["shop.example", "*.shop.example"]],
    )
    match: list[Match] | None = Field(
        default=None,
        min_length=1,
        description="any of these; every path when left out",
        examples=[[{"path": {"prefix": "/api"}}]],
    )
    sources: list[Cidr] | None = Field(
        default=None,
        min_length=1,
        description="l4 only: addresses of clients; all when left out",
        examples=[["10.0.0.0/8"]],
    )
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000, description="higher is tried first", examples=[10])
    forward: Forward | None = Field(
        default=None, description="a pool, or a list of pools with weights; no default", examples=["app"]
    )
    redirect: Redirect | None = Field(
        default=None, description="instead of forward; no default", examples=[{"path": "/new", "status": 301}]
    )
    respond: Respond | None = Field(
        default=None,
        description="instead of forward: an answer of the proxy; no default",
        examples=[{"status": 200, "body": "ok\n"}],
    )
    rewrite: Rewrite | None = Field(
        default=None,
        description="changes of path and host for the endpoint; none when left out",
        examples=[{"prefix": "/v1"}],
    )
    policies: list[Name] | None = Field(
        default=None,
        min_length=1,
        description="names of policies; later ones win, and the route's own fields over all; none when left out",
        examples=[["secured"]],
    )


class Route(RoutePolicies, RouteAction):
    """Exactly one of `forward`, `redirect`, `respond` is set. `hosts`, `match`, `listeners` None = not set."""

    model_config = exactly_one("forward", "redirect", "respond")

    @model_validator(mode="wrap")
    @classmethod
    def _one_action(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "forward", "redirect", "respond", what="a route")
