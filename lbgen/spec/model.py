"""A whole topology as the user wrote it, checked field by field; references are not followed here."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticKnownError

from lbgen.spec.acme import AcmeChallenge
from lbgen.spec.base import TRUTH, OrWord, Strict
from lbgen.spec.error_pages import ErrorPages
from lbgen.spec.listener import ClientTimeouts, Limits, Listener, Paths, TlsDefaults, Underscores
from lbgen.spec.policy import Buffering, Timeouts
from lbgen.spec.pool import Pool, PoolSettings
from lbgen.spec.route import HeaderEdits, Route, RoutePolicies
from lbgen.spec.value_errors import invalid, wrong_type
from lbgen.spec.values import (
    BodyText,
    ByteSize,
    CertificateArn,
    DeviceName,
    IpAddress,
    Name,
    NetworkName,
    PlainHost,
    Port,
    Resolver,
)

SUPPORTED_VERSION = 1
MOST_REPLICAS = 64
_LEAST_MEMORY = 16 << 20  # bytes of a container


def _parse_version(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type("a number", value, f"write version: {SUPPORTED_VERSION}")
    if value != SUPPORTED_VERSION:
        raise invalid("LB111", f"topology version {value} is unknown", f"this lbgen reads version {SUPPORTED_VERSION}")
    return value


def _by_engine(value: object) -> object:
    """A list says nothing of engines: what one may serve approximately another one may have to keep."""
    if isinstance(value, list):
        example = next((each for each in value if isinstance(each, str)), "timeouts.idle")
        raise wrong_type("a mapping by engine", value, f"write accept: {{ nginx: [{example}] }}")
    return value


def _parse_engine_version(value: object) -> str:
    if isinstance(value, str) and value.replace(".", "").isdecimal() and value.isascii():
        return value
    if isinstance(value, str):
        raise invalid("LB104", f'"{value}" is not the version of an engine', 'write major.minor, such as "1.31"')
    raise wrong_type("text", value)


def _check_memory(size: int) -> int:
    if size < _LEAST_MEMORY:
        raise PydanticKnownError("greater_than_equal", {"ge": _LEAST_MEMORY})
    return size


Memory = Annotated[ByteSize, AfterValidator(_check_memory)]  # not `ge`, which means a number to editors
Replicas = Annotated[int, Field(strict=True, ge=1, le=MOST_REPLICAS)]
Version = Annotated[int, PlainValidator(_parse_version), WithJsonSchema({"const": SUPPORTED_VERSION})]
EngineVersion = Annotated[str, PlainValidator(_parse_engine_version), WithJsonSchema({"type": "string"})]


class Tier(Strict):
    """Replicas that serve the same listeners; pools with `tier` lead to them."""

    engine: Name | None = Field(
        default=None, description="engine that serves it; the command line's when left out", examples=["haproxy"]
    )
    replicas: Replicas | None = Field(
        default=None, description="how many; 1, or as many as hosts, when left out", examples=[3]
    )
    hosts: list[PlainHost] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_REPLICAS,
        description="where they are when lbgen does not start them; <topology>-<tier>-1 and so on when left out",
        examples=[["edge-1.internal"]],
    )

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, data: object) -> object:
        if isinstance(data, str):
            raise wrong_type("a mapping", data, f"write {{ engine: {data} }}")
        return data

    @property
    def count(self) -> int:
        """The number of replicas."""
        return self.replicas or len(self.hosts or ()) or 1


class EngineBlock(Strict, extra="allow"):
    """Settings of one engine. Any other key is a verbatim block: an insertion point and its text."""

    __pydantic_extra__: dict[str, BodyText]

    version: EngineVersion | None = Field(
        default=None, description="target version; the engine's default one when left out", examples=["1.31"]
    )
    forwarding: Literal["nat", "direct"] | None = Field(
        default=None, description="how packets travel, of an engine that forwards in the kernel; nat when left out"
    )
    device: DeviceName | None = Field(
        default=None,
        description="nftables, with `forwarding: direct`: the balancer's interface to the segment that it shares with "
        "all endpoints; it then rewrites MAC addresses, not IP addresses; when left out, IP addresses are rewritten",
        examples=["eth0"],
    )
    certificate_arns: dict[Name, Annotated[list[CertificateArn], Field(min_length=1)]] | None = Field(
        default=None,
        description="aws: certificates of AWS for listeners, by the listener's name; the first serves clients that "
        "send no name; a parameter of the template for one of each listener when left out",
        examples=[{"main": ["arn:aws:acm:eu-west-1:111122223333:certificate/12345678-1234-1234-1234-123456789012"]}],
    )

    @property
    def verbatim(self) -> dict[str, str]:
        """The verbatim blocks by place."""
        return self.__pydantic_extra__ or {}


class Containers(Strict):
    """Limits of each container in the docker runtime, and the networks that containers join."""

    memory: Memory | None = Field(
        default=None,
        description="memory of each container; the profile's when left out",
        examples=["2GiB"],
    )
    pids: int | None = Field(
        default=None,
        strict=True,
        ge=16,
        le=1_000_000,
        description="processes and threads of each container; the profile's when left out",
        examples=[1024],
    )
    networks: list[NetworkName] = Field(
        default_factory=list,
        max_length=32,
        description="docker networks to join, where endpoints are known by name",
        examples=[["shop_default"]],
    )


class ForwardedHeaders(OrWord):
    """The fields that tell endpoints who asks: true or false for X-Forwarded-*, or a mapping."""

    word = "x_forwarded"
    words = TRUTH

    x_forwarded: bool = Field(default=True, description="send X-Forwarded-For, -Proto, -Host and -Port")
    real_ip: bool = Field(default=False, description="send X-Real-IP, the client's address")
    forwarded: bool = Field(default=False, description="send Forwarded (RFC 7239) with for, host and proto")


class Metrics(Strict):
    """Where the counts of requests are served as Prometheus text, by `lbgen agent`."""

    port: Port = Field(description="the port it listens on", examples=[9100])
    address: IpAddress = Field(default="127.0.0.1", description="this host only when left out")


class Defaults(Strict):
    """What routes and pools have unless they, or policies, say otherwise."""

    route: RoutePolicies | None = Field(
        default=None,
        description="for each route that a field fits: an l4 route and one that does not forward take what concerns "
        "them; none when left out",
        examples=[{"timeouts": {"response": "10s"}}],
    )
    pool: PoolSettings | None = Field(
        default=None,
        description="for each pool that a field fits; none when left out",
        examples=[{"health": {"active": {"path": "/healthz"}}}],
    )


class TopologyModel(Strict):
    """The root of a topology. None = not set here or in the profile."""

    version: Version = Field(description="the version of this format", examples=[1])
    name: Name = Field(description="what ps, logs and down call it", examples=["shop"])
    profile: str | None = Field(
        default=None, description="a built-in profile or ./file.yaml; production when left out", examples=["edge"]
    )
    include: list[str] = Field(
        default_factory=list,
        description="files with more pools and routes, `*` for any name; relative to the file that says so",
        examples=[["teams/*.yaml"]],
    )
    tiers: dict[Name, Tier] | None = Field(
        default=None,
        min_length=1,
        description="layers of proxies, one before the other; listeners name theirs; one layer when left out",
        examples=[{"edge": {"engine": "haproxy"}, "web": {"engine": "nginx", "replicas": 2}}],
    )
    listeners: dict[Name, Listener] = Field(
        default_factory=dict, description="ports that take traffic, by name", examples=[{"web": {"port": 8080}}]
    )
    pools: dict[Name, Pool] = Field(
        default_factory=dict,
        description="endpoints that are the same service, by name",
        examples=[{"app": {"endpoints": [{"address": "10.0.2.10:8080"}]}}],
    )
    routes: list[Route] = Field(
        default_factory=list,
        description="which requests go where; the most specific one wins, not the first",
        examples=[[{"name": "all", "forward": "app"}]],
    )
    policies: dict[Name, RoutePolicies] = Field(
        default_factory=dict,
        description="fields of routes under a name, for routes and listeners that name it",
        examples=[{"secured": {"access": {"allow": ["10.0.0.0/8"]}}}],
    )
    defaults: Defaults | None = Field(
        default=None,
        description="below policies and the fields of routes and pools; none when left out",
        examples=[{"route": {"timeouts": {"response": "10s"}}}],
    )
    engines: dict[Name, EngineBlock] = Field(
        default_factory=dict,
        description="settings that are not portable, by engine",
        examples=[{"nginx": {"version": "1.31"}}],
    )
    accept: Annotated[dict[Name, list[str]], BeforeValidator(_by_engine)] = Field(
        default_factory=dict,
        description="features that an engine may serve approximately, by engine, `all` = any engine; `all` in a list = "
        "any feature",
        examples=[{"nginx": ["timeouts.idle"]}],
    )
    ignore: list[str] = Field(
        default_factory=list, description="codes of warnings and advice that check leaves out", examples=[["LB266"]]
    )
    paths: Paths | None = Field(
        default=None, description="default for all listeners; strict when left out", examples=["strict"]
    )
    headers_with_underscores: Underscores | None = Field(
        default=None, description="default for all l7 listeners; drop when left out", examples=["pass"]
    )
    timeouts: Timeouts | None = Field(
        default=None,
        description="default for all forward routes; the profile's when left out",
        examples=[{"response": "30s"}],
    )
    client_timeouts: ClientTimeouts | None = Field(
        default=None,
        description="default for all listeners; the profile's when left out",
        examples=[{"client_header": "10s"}],
    )
    limits: Limits | None = Field(
        default=None,
        description="default for all l7 listeners; the engine's own limits when left out",
        examples=[{"headers": "16KiB"}],
    )
    tls: TlsDefaults | None = Field(
        default=None,
        description="default for all listeners that terminate TLS; intermediate when left out",
        examples=[{"policy": "modern"}],
    )
    max_body: ByteSize | None = Field(
        default=None, description="default for all l7 forward routes; no limit when left out", examples=["10MiB"]
    )
    buffering: Buffering | None = Field(
        default=None,
        description="default for all l7 forward routes; as the engine does when left out",
        examples=[{"request": False}],
    )
    response_headers: HeaderEdits | None = Field(
        default=None,
        description="for all l7 routes; a route's own edits of a header replace it; none when left out",
        examples=[{"set": {"x-frame-options": "DENY"}}],
    )
    error_pages: ErrorPages | None = Field(
        default=None,
        description="default for all l7 listeners: what clients get instead of the engine's own text, by status; none "
        "when left out",
        examples=[{"5xx": {"file": "errors/50x.html"}}],
    )
    forwarded_headers: ForwardedHeaders | None = Field(
        default=None,
        description="fields that tell endpoints who asks; true is X-Forwarded-For, -Proto, -Host and -Port; the "
        "profile's when left out",
        examples=[{"real_ip": True}],
    )
    request_id: bool | None = Field(default=None, description="send X-Request-Id; the profile's when left out")
    access_log: Literal["json", "none"] | None = Field(
        default=None, description="json: of requests one schema on all engines; the profile's when left out"
    )
    metrics: Metrics | None = Field(
        default=None,
        description="serve counts, times and states as Prometheus text; not served when left out",
        examples=[{"port": 9100}],
    )
    acme_challenge: AcmeChallenge | None = Field(
        default=None,
        description="who answers HTTP-01 challenges of ACME; the agent, where a listener has tls.acme, when left out",
        examples=[{"forward": "certbot"}],
    )
    containers: Containers | None = Field(
        default=None,
        description="of the docker runtime: limits of each, networks; the profile's when left out",
        examples=[{"memory": "1GiB"}],
    )
    resolvers: list[Resolver] | None = Field(
        default=None,
        min_length=1,
        description="DNS servers for the names of endpoints; the system's when left out",
        examples=[["10.0.0.2"]],
    )
