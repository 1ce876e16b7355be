"""What a feature contributes to haproxy.cfg, what it is asked about, and the shapes that the template prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from lbgen.engines.api import Objection
from lbgen.engines.haproxy.maps import Maps, PerRoute
from lbgen.engines.haproxy.matching import RouteKey
from lbgen.engines.haproxy.statements import Block, Section, Statement, Word
from lbgen.engines.text import Atom, Literal
from lbgen.plan.error_pages import ErrorPage
from lbgen.plan.model import Endpoint, Forward, Listener, Plan, Pool, Route, Timeouts
from lbgen.plan.policy import Compression, Retries


class Bind(Struct, frozen=True, eq=False):
    """The first lines of a frontend. `options` follow the address; `max_connections` None = no limit; `may_map`: a
    client may have an address such as ::ffff:192.0.2.7; `rejects`: connections that end at once."""

    name: Atom
    origin: Atom
    address: Atom
    port: int
    options: tuple[Word, ...]
    max_connections: int | None
    may_map: bool
    rejects: tuple[Statement, ...]


class Forwarded(Struct, frozen=True, eq=False):
    """Headers about the client. `drops`: statements that remove those of untrusted peers, None = all peers are;
    `sets`: X-Forwarded-* are set, else they are removed; `request_id` likewise for X-Request-Id. `stated`: a sample of
    the client that another field than X-Forwarded-For states; `statements` set further headers."""

    drops: Statement | None
    sets: bool
    request_id: bool
    scheme: Atom
    port: int
    stated: Atom | None
    statements: tuple[Statement, ...]


class Paths(Struct, frozen=True, eq=False):
    """Validation of paths: a regex of those that are refused at once, and statements that see to the others."""

    refused: Literal
    statements: tuple[Statement, ...]


class Frontend(Struct, frozen=True, eq=False):
    """An L7 listener. `only_route`: the route of every request, None = `txn.route` holds it. `dropped` is the regex of
    the headers that no request keeps. `keeps_trailers`: some endpoints speak HTTP/2, which get `te: trailers`.
    `forwards`: some route has a pool; `makes_ids`: requests get an id."""

    bind: Bind
    http2: bool
    logs: bool
    only_route: Atom | None
    header_timeout: Atom
    body_timeout: Atom
    keepalive_timeout: Atom
    forwarded: Forwarded
    paths: Paths
    dropped: Literal
    keeps_trailers: bool
    filters: tuple[Statement, ...]
    guards: Section
    routing: Section
    admission: Section
    forwards: bool
    makes_ids: bool
    edits: Section
    use_backend: tuple[Statement, ...]


class L4Frontend(Struct, frozen=True, eq=False):
    """An L4 listener; `idle` is the longest silence of its connections."""

    bind: Bind
    idle: Atom
    statements: tuple[Statement, ...]


class Times(Struct, frozen=True, eq=False):
    """Times of backends: `server` for a silent endpoint, `tunnel` for both directions of a tunnel."""

    connect: Atom
    server: Atom
    tunnel: Atom


class Backend(Struct, frozen=True, eq=False):
    """A pool's endpoints with one set of times (None: those of the section `defaults`). `repeats`: the pool, where
    another backend has it too and comes first."""

    name: Atom
    origin: Atom
    l7: bool
    repeats: Atom | None
    balance: tuple[Word, ...]
    is_hashed: bool
    times: Times | None
    statements: tuple[Statement, ...]
    servers: tuple[Statement, ...]


class View(Struct, frozen=True, eq=False):
    """All of haproxy.cfg. `files`: the options that name it, and that of users before it. `settings` are those of
    features for the whole process, `stored` certificates whose keys are not beside them; `sections` stand before
    the frontends, `copies` behind those of L7 listeners, `denied` behind those of L4 listeners, and `answers` at
    the end.

    `times` are those of most L7 backends, `l4_times` of L4 backends. `keeps_ids`: some listener trusts proxies that set
    request ids. `passes_nul`: HAProxy takes such a byte in a header; `loses_interim`: it may lose what follows an
    endpoint's 100. `own` begins the names of sections `defaults`. `purge_delay`: a step in which idle connections to
    endpoints are closed. `logged`: how many L7 listeners have a log; `prints_log`, `metrics_fd`: where logs go.
    """

    version: Atom
    name: Atom
    files: Atom
    settings: tuple[Section, ...]
    stored: tuple[Statement, ...]
    times: Times
    l4_times: Times
    keeps_ids: bool
    passes_nul: bool
    loses_interim: bool
    own: Atom
    sections: tuple[Block, ...]
    frontends: tuple[Frontend, ...]
    copies: tuple[Block, ...]
    l4_frontends: tuple[L4Frontend, ...]
    denied: tuple[Block, ...]
    backends: tuple[Backend, ...]
    answers: tuple[Block, ...]
    purge_delay: Atom
    logs_l4: bool
    logged: int
    prints_log: bool
    metrics_fd: int | None
    admin_port: int | None


class HttpListener(Struct, frozen=True, eq=False, dict=True):
    """An L7 listener, and the keys of its routes. `per_route` writes statements for some of these, `per_response` where
    a request may have none. `client`: a sample of the client's address. `copies_to`: the backend for copies of requests
    by pool and times."""

    plan: Plan
    listener: Listener
    keys: Mapping[str, RouteKey]
    maps: Maps
    per_route: PerRoute
    per_response: PerRoute
    client: str
    copies_to: Callable[[Pool, Timeouts], str]

    @cached_property
    def routes(self) -> list[tuple[str, Route]]:
        """Keys and routes."""
        return [(name, self.plan.route(key.route)) for name, key in self.keys.items()]

    @cached_property
    def forwards(self) -> dict[str, Forward]:
        """The actions of routes that forward, by key."""
        return {name: route.action for name, route in self.routes if isinstance(route.action, Forward)}


class PoolUse(Struct, eq=False):
    """A pool as some routes use it, which makes a backend. `other_times`: the keys of routes whose times differ from
    `times`. `keepalive_limited`: the topology limits idle connections; without a limit HAProxy keeps as many as it used
    last, which is faster. `tracked`: the backend with the same endpoints whose checks this one follows, "" = it has its
    own. `error_pages` are those of its routes alone; `has_pages`: listeners may have others."""

    name: str
    pool: Pool
    times: Timeouts
    retries: Retries | None
    compression: Compression | None
    l7: bool
    version: str
    keepalive_limited: bool
    tracked: str
    error_pages: tuple[ErrorPage, ...]
    has_pages: bool
    other_times: dict[Timeouts, list[str]]


class Contributor(Struct, frozen=True, eq=False):
    """A feature: what it adds to each part of haproxy.cfg, and its objections; None where it adds nothing.

    Contributors are asked in the order of `features.FEATURES`.
    """

    settings: Callable[[Plan, str], Iterable[Section]] | None = None  # of the whole process, by version
    sections: Callable[[Plan], Iterable[Block]] | None = None  # before the frontends
    filters: Callable[[HttpListener], Iterable[Statement]] | None = None
    by_client: Callable[[Listener, Sequence[Route]], bool] | None = None  # whether it asks for the client's address
    guards: Callable[[HttpListener], Iterable[Statement]] | None = None  # before routing
    admission: Callable[[HttpListener], Iterable[Statement]] | None = None  # whether the route takes the request
    edits: Callable[[HttpListener], Iterable[Statement]] | None = None  # behind that
    backend: Callable[[PoolUse], Iterable[Statement]] | None = None
    server: Callable[[PoolUse, int, Endpoint], Iterable[str | Word]] | None = None  # endpoints are counted from 1
    objections: Callable[[Plan, str], Iterable[Objection]] | None = None  # by version


def used_pools(plan: Plan) -> list[Pool]:
    """The pools that get requests."""
    actions = [route.action for route in plan.routes if isinstance(route.action, Forward)]
    used = {target.pool for action in actions for target in action.targets if target.weight}
    used |= {mirror.pool for action in actions for mirror in action.mirrors}
    return [pool for pool in plan.pools if pool.name in used or pool.sticky]
