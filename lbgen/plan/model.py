"""The plan: what every engine has to achieve, with names resolved and every default written out.

Frozen data without engine words. Times are whole milliseconds (0 = no limit), sizes bytes, header names lower-case.
`field` is the topology field an object came from, such as `routes[2]`; it names the place in reports and source maps.
Order carries meaning everywhere: lists are in the order in which an engine must try them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from lbgen.plan import places
from lbgen.plan.conditions import HostPattern, Match, NamedMatch, PathKind, PathMatch, ValueKind, ValueMatch
from lbgen.plan.policy import Buffering, Limits, Paths
from lbgen.plan.pool import Balance, Endpoint, Pool, PoolProtocol

if TYPE_CHECKING:
    from lbgen.diagnostics import Span
    from lbgen.plan.features import Feature
    from lbgen.plan.policy import (
        Access,
        Compression,
        Concurrency,
        Cors,
        Mirror,
        RateLimit,
        Retries,
    )
    from lbgen.plan.tls import File, ListenerTls

# Engines take the nouns of a plan from here, whichever file has them.
__all__ = [
    "Balance",
    "ClientTimeouts",
    "ContainerLimits",
    "Endpoint",
    "EngineOptions",
    "Forward",
    "HeaderEdits",
    "HostPattern",
    "HostTable",
    "L4Rule",
    "Listener",
    "Match",
    "Mode",
    "NamedMatch",
    "PathKind",
    "PathMatch",
    "Plan",
    "Pool",
    "PoolProtocol",
    "Protocol",
    "Redirect",
    "Respond",
    "Rewrite",
    "Route",
    "Rule",
    "Target",
    "TierOf",
    "Timeouts",
    "Use",
    "ValueKind",
    "ValueMatch",
]


class Mode(StrEnum):
    L7 = "l7"
    L4 = "l4"


class Protocol(StrEnum):
    TCP = "tcp"
    UDP = "udp"


@dataclass(frozen=True, slots=True)
class Rule:
    """One way into a route: a host pattern (None = every host) and a match. `rank` 0 is tried first, plan-wide."""

    id: str  # unique in the plan, a safe word: <route name>.<n>
    rank: int
    route: str
    host: HostPattern | None
    match: Match
    field: str


@dataclass(frozen=True, slots=True)
class HostTable:
    """Every rule that a request for `host` (None = any host without a table of its own) can meet, in order.

    The list is complete: rules of wider hosts are copied in, and it ends at the first catch-all. An engine picks
    the most specific table for a request and needs no other. A request that no rule takes gets 404.
    """

    host: HostPattern | None
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class L4Rule:
    """One way into an L4 route. `sni` None = any or none; `sources` are CIDRs, empty = everyone."""

    id: str
    rank: int
    route: str
    sni: HostPattern | None
    sources: tuple[str, ...]
    field: str


@dataclass(frozen=True, slots=True)
class ClientTimeouts:
    """Milliseconds, 0 = no limit: reading the head, silence in the body, an idle kept connection."""

    header: int
    body: int
    keepalive: int


@dataclass(frozen=True, slots=True)
class Listener:
    """A port. L7 listeners carry `hosts` (exact first, then longer wildcards, the hostless table always last and maybe
    empty), L4 listeners `l4_rules` in the order of trial."""

    name: str
    address: str
    port: int
    mode: Mode
    protocol: Protocol
    field: str
    hosts: tuple[HostTable, ...] = ()
    l4_rules: tuple[L4Rule, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    forwarded_headers: bool = True  # X-Forwarded-For, -Proto, -Host, -Port
    request_id: bool = True  # X-Request-Id
    timeouts: ClientTimeouts = ClientTimeouts(60_000, 60_000, 75_000)
    tls: ListenerTls | None = None
    http2: bool = False  # with TLS: offered by ALPN beside HTTP/1.1; without: prior knowledge, HTTP/1.1 goes on
    proxy_protocol: bool = False  # every connection begins with a PROXY header (v1 or v2), whose source is the peer
    max_connections: int | None = None
    paths: Paths = Paths()  # noqa: RUF009  # frozen
    underscores: bool = False  # request fields with an underscore in their names are let in
    access: Access | None = None
    limits: Limits = Limits()  # noqa: RUF009  # frozen
    access_log: bool = False  # one JSON line per request
    address_written: bool = False  # all addresses may be what the user wants, or what nobody said
    public_port: int | None = None  # where clients come in, when another tier stands in front

    @property
    def client_port(self) -> int:
        """The port that clients know: of X-Forwarded-Port and redirects."""
        return self.public_port or self.port

    @property
    def scheme(self) -> str:
        """What clients speak here."""
        return "https" if self.tls is not None and not self.tls.passthrough else "http"


@dataclass(frozen=True, slots=True)
class HeaderEdits:
    """Applied as remove, then set (replaces all lines of that name), then add (a further line). Lower-case names."""

    set: tuple[tuple[str, str], ...] = ()
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.set or self.add or self.remove)


@dataclass(frozen=True, slots=True)
class Target:
    """One share of a split; `request_headers` come after the route's own."""

    pool: str
    weight: int
    request_headers: HeaderEdits
    field: str


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Milliseconds, 0 = no limit. `response` runs from the request sent to the response head, `idle` is the longest
    silence of a body or tunnel in either direction."""

    connect: int
    response: int
    idle: int
    request: int = 0  # all tries, to the last byte


@dataclass(frozen=True, slots=True)
class Rewrite:
    """`prefix` replaces the matched prefix (or the matched exact path), `path` the whole path; one of them at most.
    `host` replaces the Host. The query is kept."""

    prefix: str | None = None
    path: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """A request with the sticky cookie of an endpoint of one of `targets` goes there, whatever the weights."""

    targets: tuple[Target, ...]  # weights as written, at least one above 0
    timeouts: Timeouts
    rewrite: Rewrite | None = None
    retries: Retries | None = None
    buffering: Buffering = Buffering()  # noqa: RUF009  # frozen
    mirrors: tuple[Mirror, ...] = ()


@dataclass(frozen=True, slots=True)
class Redirect:
    """None = as the request has it (contract section 4 says how host and port follow)."""

    status: int
    scheme: str | None = None
    host: str | None = None
    port: int | None = None
    path: str | None = None
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Respond:
    """`headers` hold everything shown, content-type included."""

    status: int
    body: str
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Route:
    """`index` is the place in the file. An L4 route has a Forward with one or more targets and no edits."""

    name: str
    index: int
    action: Forward | Redirect | Respond
    field: str
    request_headers: HeaderEdits = HeaderEdits()
    response_headers: HeaderEdits = HeaderEdits()
    access: Access | None = None
    rate_limit: RateLimit | None = None
    concurrency: Concurrency | None = None
    max_body: int | None = None
    cors: Cors | None = None
    compression: Compression | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a feature. `default`: nobody wrote it; it only stands for a value that has to be something."""

    feature: Feature
    field: str
    span: Span
    default: bool = False


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`engines.<name>`: version None = the newest supported. `verbatim` are places of its configuration and the text
    that goes there as it stands."""

    version: str | None = None
    verbatim: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """What each container may use at most: bytes, and processes with their threads."""

    memory: int = 2 << 30
    pids: int = 1024


@dataclass(frozen=True, slots=True)
class TierOf:
    """Which part of which topology a plan is. `replica` counts from 1; 0 = of all replicas alike."""

    topology: str
    tier: str
    replica: int = 0

    @property
    def part(self) -> str:
        """What commands call it: `web-1`."""
        return f"{self.tier}-{self.replica}" if self.replica else self.tier

    @property
    def name(self) -> str:
        """The name of its own stack, and of its plan."""
        return f"{self.topology}-{self.part}"


@dataclass(frozen=True, slots=True)
class Plan:
    """See the module. `resolvers` are DNS servers for endpoint names, for engines that must be told (IP or IP:port).
    `admin_port` is set by the runtime only: a loopback port for the engine's own status interface, `admin_shared`:
    others use that loopback too. `tier`: it is one of a topology that has tiers."""

    name: str
    listeners: tuple[Listener, ...]
    pools: tuple[Pool, ...]
    routes: tuple[Route, ...]
    uses: tuple[Use, ...] = ()
    accept: tuple[str, ...] = ()
    engines: tuple[tuple[str, EngineOptions], ...] = ()
    resolvers: tuple[str, ...] = ()
    containers: ContainerLimits = ContainerLimits()  # frozen
    networks: tuple[str, ...] = ()  # of docker, which containers join
    spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)
    admin_port: int | None = None
    admin_shared: bool = False
    tier: TierOf | None = None
    _routes: dict[str, Route] = field(default_factory=dict, init=False, repr=False, compare=False)
    _pools: dict[str, Pool] = field(default_factory=dict, init=False, repr=False, compare=False)
    _listeners: dict[str, Listener] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # By name, once: engines ask for every route and pool.
        self._routes.update((route.name, route) for route in self.routes)
        self._pools.update((pool.name, pool) for pool in self.pools)
        self._listeners.update((listener.name, listener) for listener in self.listeners)

    def route(self, name: str) -> Route:
        """The route of that name; KeyError when there is none."""
        return self._routes[name]

    def pool(self, name: str) -> Pool:
        """The pool of that name; KeyError when there is none."""
        return self._pools[name]

    def listener(self, name: str) -> Listener:
        """The listener of that name; KeyError when there is none."""
        return self._listeners[name]

    @property
    def files(self) -> tuple[File, ...]:
        """Every file the topology names, once, in a fixed order."""
        return tuple(dict.fromkeys(file for _, file in places.files(self)))

    def options(self, engine: str) -> EngineOptions:
        """What `engines.<engine>` asked for, or the defaults."""
        return dict(self.engines).get(engine, EngineOptions())
