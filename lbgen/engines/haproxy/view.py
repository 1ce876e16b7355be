"""What templates/haproxy/haproxy.cfg.j2 prints, as typed shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from lbgen.engines.haproxy.statements import Section, Statement, Word
    from lbgen.engines.text import Atom, Literal
    from lbgen.plan.guarantees import Guarantees


class Bind(Struct, frozen=True, eq=False):
    """The first lines of a frontend. `options` follow the address; `max_connections` None = no limit; `may_map`: a
    client may have an address such as ::ffff:192.0.2.7."""

    name: Atom
    origin: Atom
    address: Atom
    port: int
    options: tuple[Word, ...]
    max_connections: int | None
    may_map: bool


class Forwarded(Struct, frozen=True, eq=False):
    """Headers about the client. `drops`: statements that remove those of untrusted peers before anything reads them, in
    `has_trusted` those of trusted proxies are kept; `sets`: X-Forwarded-* are set, else
    they are removed; `request_id` likewise for X-Request-Id."""

    drops: tuple[Statement, ...]
    has_trusted: bool
    sets: bool
    request_id: bool
    scheme: Atom
    port: int


class Paths(Struct, frozen=True, eq=False):
    """Validation of paths. `refused` is the regex of those that are answered 400."""

    refused: Literal
    is_strict: bool
    normalizes: bool
    is_verbatim: bool


class Plain(Struct, frozen=True, eq=False):
    """Regexes of a target and of all header lines together that need none of the rules for other requests."""

    target: Literal
    head: Literal


class Frontend(Struct, frozen=True, eq=False):
    """An L7 listener. `only_route`: the route of every request that HAProxy reads, None = `txn.route` holds it. `plain`
    is None where its guarantees leave no rule to spare a request; `dropped` is the regex of the headers that no request
    keeps, None = no name; with `drops_underscores` it has names with an underscore, unless something tests these before
    (`tests_underscores`). `measures_bodies`: a filter counts bodies of unknown length; `may_expire`: the time of a
    request can end while its body is waited for; `has_times`, `has_mirrors`, `compresses`: some route needs that
    filter; `forwards`: some route has a pool."""

    bind: Bind
    http2: bool
    logs: bool
    only_route: Atom | None
    guarantees: Guarantees
    plain: Plain | None
    dropped: Atom | None
    header_timeout: Atom
    body_timeout: Atom
    keepalive_timeout: Atom
    forwarded: Forwarded
    paths: Paths
    drops_underscores: bool
    tests_underscores: bool
    guards: Section
    routing: Section
    admission: Section
    measures_bodies: bool
    has_mirrors: bool
    has_times: bool
    may_expire: bool
    compresses: bool
    forwards: bool
    edits: Section
    use_backend: tuple[Statement, ...]


class L4Frontend(Struct, frozen=True, eq=False):
    """An L4 listener; `idle` is the longest silence of its connections. `backend`: the one that takes all of them, and
    those of no other listener, None = its statements choose."""

    bind: Bind
    idle: Atom
    statements: tuple[Statement, ...]
    backend: Backend | None = None


class Times(Struct, frozen=True, eq=False):
    """Times of backends. `late` is the time in microseconds from which a failed connection attempt counts as timed
    out."""

    connect: Atom
    response: Atom
    idle: Atom
    late: int


class Backend(Struct, frozen=True, eq=False):
    """A pool's endpoints with one set of times (None: those of the section `defaults`). `may_be_empty`: at times no
    server is up; `retries`: some failures are tried again; `answers_closed`: 502 is still to be made where an endpoint
    closes without a response; `repeats`: the pool, where another backend has it too and comes first."""

    name: Atom
    origin: Atom
    l7: bool
    repeats: Atom | None
    balance: tuple[Word, ...]
    is_hashed: bool
    times: Times | None
    may_be_empty: bool
    retries: bool
    answers_closed: bool
    compresses: bool
    statements: tuple[Statement, ...]
    servers: tuple[Statement, ...]


class ActionBackend(Struct, frozen=True, eq=False):
    """A route that redirects or responds."""

    name: Atom
    origin: Atom
    statements: tuple[Statement, ...]


class View(Struct, frozen=True, eq=False):
    """All of haproxy.cfg. `authority` is the regex of what is no Host header, `head_kib` the room for a request head in
    KiB, `buffer` in bytes (0 = HAProxy's own size), of which `added` bytes are for additions to a head.

    `answers`: some listener keeps the contract's answers; `statuses`: so it does, or other fields rest on the statuses
    of HAProxy's own answers; `answers_closed`: every L7 backend has the rule that answers 502 where an endpoint closes
    without a response. `times` are those of most L7 backends, `l4_times` of L4 backends. `keeps_ids`: some
    listener trusts proxies that set request ids. `limits_concurrency`, `limits_bodies`, `has_times`, `has_mirrors`:
    some route has these; `has_filters`: some frontend has a filter. `shares_state`: some Lua counts for all threads;
    `has_one_state`: all Lua has to run in that state then. `recent`: it is 3.2 or newer, which can give Lua booleans as
    such. `own` begins the names of sections
    `defaults`. `queues`: some endpoints have a limit, so requests may wait. `judges`: statements of some backend look
    at every response. `has_passing_check`: some check needs a frontend that accepts every connection. `denied`: the
    backend for connections that an L4 route denies. `stored`: certificates
    whose keys are not beside them. `purge_delay`: a step in which idle connections to endpoints are closed.
    """

    version: Atom
    name: Atom
    authority: Literal
    head_kib: int
    buffer: int
    added: int
    answers: bool
    answers_closed: bool
    statuses: bool
    times: Times
    l4_times: Times
    keeps_ids: bool
    limits_concurrency: bool
    limits_bodies: bool
    shares_state: bool
    has_one_state: bool
    recent: bool
    own: Atom
    lua_files: tuple[Atom, ...]
    frontends: tuple[Frontend, ...]
    l4_frontends: tuple[L4Frontend, ...]
    backends: tuple[Backend, ...]
    action_backends: tuple[ActionBackend, ...]
    stored: tuple[Statement, ...]
    nameservers: tuple[Statement, ...]
    has_resolvers: bool
    has_grpc: bool
    purge_delay: Atom
    logs: bool
    logged: int
    prints_log: bool
    metrics_fd: int | None
    has_mirrors: bool
    has_times: bool
    has_filters: bool
    queues: bool
    judges: bool
    has_passing_check: bool
    denied: Atom | None
    admin_port: int | None
