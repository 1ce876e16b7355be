"""Policies of routes: timeouts, retries, limits, mirrors, CORS and compression."""

from typing import Literal

from pydantic import Field

from lbgen.spec.base import OrWord, Strict, exactly_one
from lbgen.spec.values import (
    ByteSize,
    Count,
    Duration,
    HeaderName,
    MediaType,
    Method,
    Name,
    Origin,
    Percent,
    RateValue,
    RetryCause,
)


class Timeouts(Strict):
    """0 = no limit, None = not set here."""

    connect: Duration | None = Field(
        default=None, description="to an endpoint; the topology's when left out", examples=["1s"]
    )
    response: Duration | None = Field(
        default=None,
        description="from request sent to response head, per try; the topology's when left out",
        examples=["10s"],
    )
    idle: Duration | None = Field(
        default=None,
        description="longest silence of a body or tunnel, either direction; the topology's when left out, else the "
        "time of `response`",
        examples=["60s"],
    )
    request: Duration | None = Field(
        default=None, description="all tries, to the last byte; no limit when left out", examples=["30s"]
    )


class Retries(Strict):
    """Extra tries, each at another endpoint when there is one."""

    max: Count = Field(description="extra tries", examples=[2])
    on: list[RetryCause] = Field(
        min_length=1,
        description="conditions that are retried: words and statuses",
        examples=[["connect_failure", "reset", 503]],
    )
    methods: Literal["idempotent", "all"] = Field(
        default="idempotent",
        description="idempotent: GET, HEAD, OPTIONS, PUT, DELETE; a failed connection is retried for any",
    )
    budget: Percent | None = Field(
        default=None, description="retries as a share of active requests; no limit when left out", examples=["20%"]
    )


class RateKey(OrWord):
    """What is counted together: `client_ip`, `route`, or `{ header: NAME }`; exactly one is set."""

    word = "by"
    words = ("client_ip", "route")
    choices, what = ("by", "header"), "key"

    model_config = exactly_one("by", "header")

    by: Literal["client_ip", "route"] | None = Field(
        default=None, description="the short form is the word alone; no default"
    )
    header: HeaderName | None = Field(
        default=None,
        description="the value of a header; a request without it is not limited; no default",
        examples=["x-api-key"],
    )


class RateLimit(Strict):
    """A limit of requests per time; `burst` = how many may arrive at once."""

    rate: RateValue = Field(description="requests per second, minute or hour; more get 429")
    burst: Count | None = Field(
        default=None,
        description="how many may arrive at once; the rate of one second, at least 1, when left out",
        examples=[20],
    )
    key: RateKey = Field(description="what is counted together", examples=["client_ip"])


class Concurrency(Strict):
    """A limit of requests at a time."""

    max: Count = Field(description="requests at a time; more get 429", examples=[100])
    key: RateKey = Field(description="what is counted together", examples=["route"])


class Buffering(Strict):
    """Whether bodies are buffered whole before they are forwarded; None = as the engine does."""

    request: bool | None = Field(
        default=None, description="buffer whole requests before they are forwarded; as the engine does when left out"
    )
    response: bool | None = Field(
        default=None, description="buffer whole responses before they are forwarded; as the engine does when left out"
    )


class Mirror(Strict):
    """A copy of requests; its response is dropped."""

    pool: Name = Field(description="where the copies go", examples=["shadow"])
    percent: Percent = Field(default=100.0, description="how many of the requests are copied", examples=["10%"])


class Cors(Strict):
    """The origins whose pages may call; the proxy answers preflights."""

    origins: list[Origin] = Field(
        min_length=1,
        description="origins whose pages may call, as browsers send them (apps and files too: `capacitor://localhost`, "
        "`null`); `*.` stands for any name below, `:*` for any port, `*` for all",
        examples=[["https://shop.example", "https://*.shop.example", "http://localhost:*"]],
    )
    methods: list[Method] = Field(
        default_factory=list, description="methods that they may use", examples=[["GET", "POST"]]
    )
    headers: list[HeaderName] = Field(
        default_factory=list, description="request headers that they may send", examples=[["content-type"]]
    )
    expose_headers: list[HeaderName] = Field(
        default_factory=list, description="response headers that they may read", examples=[["x-total"]]
    )
    credentials: bool = Field(default=False, description="whether cookies are sent")
    max_age: Duration | None = Field(
        default=None,
        description="how long a browser keeps the answer; the browser's own when left out",
        examples=["10m"],
    )


class Compression(Strict):
    """Which responses are compressed."""

    types: list[MediaType] = Field(
        min_length=1,
        description="media types of responses that are compressed",
        examples=[["application/json", "text/html"]],
    )
    min_size: ByteSize | None = Field(
        default=None, description="smaller responses are not; 1KiB when left out", examples=["1KiB"]
    )
