"""What templates/haproxy/haproxy.cfg.j2 prints, as typed shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from lbgen.engines.haproxy.statements import Section, Statement, Word
    from lbgen.engines.text import Atom, Literal


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
    `sets`: X-Forwarded-* are set, else they are removed; `request_id` likewise for X-Request-Id."""

    drops: Statement | None
    sets: bool
    request_id: bool
    scheme: Atom
    port: int


class Paths(Struct, frozen=True, eq=False):
    """Validation of paths: regexes of those that are refused at once, and after they were made normal."""

    refused_first: Literal
    refused: Literal
    normalizes: bool
    is_verbatim: bool


class Frontend(Struct, frozen=True, eq=False):
    """An L7 listener. `only_route`: the route of every request, None = `txn.route` holds it. `dropped` is the regex of
    the headers that no request keeps. `keeps_trailers`: some endpoints speak HTTP/2, which get `te: trailers`.
    `measures_bodies`: a filter counts bodies of unknown length; `forwards`: some route has a pool."""

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
    guards: Section
    routing: Section
    admission: Section
    measures_bodies: bool
    forwards: bool
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


class ActionBackend(Struct, frozen=True, eq=False):
    """A route that redirects or responds."""

    name: Atom
    origin: Atom
    statements: tuple[Statement, ...]


class Mirror(Struct, frozen=True, eq=False):
    """A frontend for copies of requests, at the abstract socket `address`."""

    name: Atom
    origin: Atom
    address: Atom
    backend: Atom


class View(Struct, frozen=True, eq=False):
    """All of haproxy.cfg. `head_kib` is the room for a request head in KiB, `buffer` in bytes (0 = HAProxy's own size),
    of which `added` bytes are for additions to a head.

    `times` are those of most L7 backends, `l4_times` of L4 backends. `keeps_ids`: some listener trusts proxies that set
    request ids. `limits_rates`, `limits_concurrency`: some route has these. `has_lua`: lbgen.lua is there; `recent`: it
    is 3.1 or newer, which can give Lua booleans as such. `passes_nul`: it takes such a byte in a header;
    `loses_interim`: it may lose what follows an endpoint's 100.
    `has_http2`: a listener speaks it. `has_passive`: some checks are due only after a failure. `own` begins the names
    of sections `defaults`. `denied`: the backend for connections that an L4 route denies. `stored`: certificates whose
    keys are not beside them.
    `purge_delay`: a step in which idle connections to endpoints are closed. `prints_log`, `metrics_fd`: where access
    logs go.
    """

    version: Atom
    name: Atom
    head_kib: int
    buffer: int
    added: int
    times: Times
    l4_times: Times
    keeps_ids: bool
    limits_rates: bool
    limits_concurrency: bool
    has_lua: bool
    recent: bool
    passes_nul: bool
    loses_interim: bool
    has_http2: bool
    has_passive: bool
    own: Atom
    frontends: tuple[Frontend, ...]
    l4_frontends: tuple[L4Frontend, ...]
    backends: tuple[Backend, ...]
    action_backends: tuple[ActionBackend, ...]
    mirrors: tuple[Mirror, ...]
    stored: tuple[Statement, ...]
    nameservers: tuple[Statement, ...]
    has_resolvers: bool
    purge_delay: Atom
    logs: bool
    logs_l4: bool
    logged: int
    prints_log: bool
    metrics_fd: int | None
    denied: Atom | None
    admin_port: int | None
