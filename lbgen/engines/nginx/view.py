"""What a feature contributes to nginx.conf, and the parts of a plan that it is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from msgspec import Struct, field

from lbgen.engines.api import Objection
from lbgen.engines.nginx.definitions import Definitions
from lbgen.engines.nginx.request_values import RequestValues
from lbgen.engines.nginx.statements import Check, ClientTimes, Header, Line, Location, Proxy, Text, Times
from lbgen.engines.nginx.support import Version
from lbgen.engines.text import Atom, Literal
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Endpoint, Forward, Listener, Plan, Pool, Route, Rule, Target
from lbgen.plan.policy import Cors, KeyKind
from lbgen.plan.tls import Certificate

Lines = Iterable["Line"]
Checks = Iterable["Check"]
HeaderLines = dict[str, tuple["Text", ...]]
"""Header name (lower case) to its lines; no lines drop the header."""


class HttpBlock(Struct, frozen=True, eq=False, dict=True):
    """The http block of a plan with its L7 listeners, and the pools that they forward to. `headers` are those that each
    listener sets; `shared_headers`, `times` and `client_times` stand in the block. `real_ip`: the listeners where
    $remote_addr is the client behind trusted proxies, since a limit counts by it. `has_grpc`: some pool needs nginx's
    gRPC module.

    Of routes: `splits` are variables with the selected target, `upstreams` those of their first tries, `logged_pools`
    what the access log names, `request_headers` those on a listener; `cors_headers` are those of responses by policy,
    `asked` numbers the ways in which a pool is asked about requests.
    """

    plan: Plan
    version: Version
    listeners: tuple[Listener, ...]
    pools: tuple[Pool, ...]
    definitions: Definitions
    values: RequestValues
    headers: Mapping[str, HeaderLines]
    shared_headers: HeaderLines
    times: Times
    client_times: ClientTimes
    real_ip: frozenset[str]
    has_grpc: bool
    splits: dict[str, str] = field(default_factory=dict)
    upstreams: dict[str, Atom] = field(default_factory=dict)
    request_headers: dict[tuple[str, str, str], tuple[Header, ...]] = field(default_factory=dict)
    logged_pools: dict[str, Text] = field(default_factory=dict)
    cors_headers: dict[Cors, tuple[tuple[str, Text], ...]] = field(default_factory=dict)
    asked: dict[str, dict[ForwardAuth, int]] = field(default_factory=dict)

    @cached_property
    def has_tls(self) -> bool:
        return any(x.tls is not None for x in self.listeners)

    @cached_property
    def keyed_limits(self) -> int:
        """How many limits count by a key of the request."""
        counters = (c for route in self.plan.routes for c in (route.rate_limit, route.concurrency) if c is not None)
        return sum(c.key.kind is not KeyKind.ROUTE for c in counters)

    def reachable_targets(self, action: Forward) -> list[Target]:
        """The targets that get requests; a sticky cookie leads to targets of weight 0 as well."""
        if 0 not in [t.weight for t in action.targets]:
            return list(action.targets)
        sticky = any(self.plan.pool(t.pool).sticky for t in action.targets)
        return [t for t in action.targets if t.weight or sticky]


def http_routes(plan: Plan, listener: Listener) -> list[Route]:
    """The routes of an L7 listener, each once."""
    return [plan.route(name) for name in dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules)]


class HttpListener(Struct, frozen=True, eq=False):
    """An L7 listener in the http block."""

    on: HttpBlock
    listener: Listener


class HttpServer(HttpListener, frozen=True, eq=False):
    """A server block of an L7 listener; `certificate` None rejects the handshake."""

    certificate: Certificate | None


class HttpRoute(HttpListener, frozen=True, eq=False):
    """A route in a location for the requests of a rule."""

    rule: Rule
    route: Route


class UpstreamProtocol(Struct, frozen=True):
    """`module` is the nginx module whose directives apply, `scheme` that of its `_pass` directive; `http2`: the proxy
    module speaks HTTP/2."""

    module: str
    scheme: str
    lines: tuple[Line, ...]
    http2: bool = False


class HttpForward(HttpRoute, frozen=True, eq=False):
    """The same of a route that forwards, by one protocol."""

    action: Forward
    protocol: UpstreamProtocol


class UpstreamPool(Struct, frozen=True, eq=False):
    """A pool with an upstream. `on` None: at L4, where `peer` is the variable with the client's address. `single`: an
    upstream of one endpoint, whose backups are the others."""

    pool: Pool
    on: HttpBlock | None
    peer: Atom
    single: bool = False

    @property
    def by_cookie(self) -> bool:
        """Whether nginx itself selects the endpoint that a cookie names."""
        return self.on is not None and self.on.version.upstreams and self.pool.sticky is not None and not self.single


class L4Server(Struct, frozen=True, eq=False):
    """A server of an L4 listener. `names` and `certificate` are those of TLS that ends here; `pool` is that of the
    first rule, `upstream` its name or a variable. `is_alone`: no other listener has what this one adds."""

    definitions: Definitions
    listener: Listener
    pool: Pool
    upstream: Atom
    is_alone: bool
    names: tuple[Atom | Literal, ...] = ()
    certificate: Certificate | None = None


class Contributor(Struct, frozen=True, eq=False):
    """A feature: what it adds to each part of nginx.conf, and its objections; None where it adds nothing.

    Directives stand in the order of `features.FEATURES`. What they refer to is added to the block's definitions.
    """

    http: Callable[[HttpBlock, bool], None] | None = None  # definitions for all servers; if the gRPC module forwards
    server: Callable[[HttpServer], Lines] | None = None  # before the locations
    checks: Callable[[HttpServer], Checks] | None = None  # of all requests of a server
    location: Callable[[HttpRoute], Lines] | None = None  # at the start of it
    guard: Callable[[HttpRoute, bool], Iterable[Check | Line]] | None = None  # before the action; if it has a name
    hides: Callable[[Route], Iterable[str]] | None = None  # headers of endpoints that clients do not get
    response: Callable[[HttpRoute], Iterable[tuple[str, Text]]] | None = None  # headers that edits may replace
    forward: Callable[[HttpForward], Lines] | None = None  # where a location forwards
    forwarded: Callable[[HttpForward], Iterable[Header]] | None = None  # headers of responses of endpoints
    # The lines of a location that forwards, and other locations; they are numbered where a route has several.
    copies: Callable[[HttpRoute, Forward, Location, Proxy, int], tuple[list[Line], list[Location]]] | None = None
    # Locations of a server block for what its routes ask for.
    locations: Callable[[HttpBlock, Listener, Iterable[HttpRoute]], Iterable[Location]] | None = None
    upstream: Callable[[UpstreamPool], Lines] | None = None  # before the servers
    endpoint: Callable[[UpstreamPool, Endpoint], str] | None = None  # options of a server
    stream: Callable[[L4Server], Lines] | None = None  # of a server at L4
    objections: Callable[[Plan, str], Iterable[Objection]] | None = None  # by version
