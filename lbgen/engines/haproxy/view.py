"""What templates/haproxy/haproxy.cfg.j2 prints, as typed shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.records import record

if TYPE_CHECKING:
    from lbgen.engines.haproxy.statements import Section, Statement, Word
    from lbgen.engines.text import Atom, Literal


@record
class Bind:
    """The first lines of a frontend. `options` follow the address; `max_connections` None = no limit."""

    name: Atom
    origin: Atom
    address: Atom
    port: int
    options: tuple[Word, ...]
    max_connections: int | None


@record
class Forwarded:
    """Headers about the client. `trusted`: ACLs on proxies whose headers are kept; `sets`: X-Forwarded-* are set, else
    they are removed; `request_id` likewise for X-Request-Id."""

    trusted: tuple[Statement, ...]
    sets: bool
    request_id: bool
    scheme: Atom
    port: int


@record
class Paths:
    """Validation of paths. `refused` is the regex of those that are answered 400."""

    refused: Literal
    is_strict: bool
    normalizes: bool
    is_verbatim: bool


@record
class Frontend:
    """An L7 listener. `measures_bodies`: a filter counts bodies of unknown length; `may_expire`: the time of a request
    can end while its body is waited for; `has_times`, `has_mirrors`, `compresses`: some route needs that filter;
    `forwards`: some route has a pool."""

    bind: Bind
    http2: bool
    logs: bool
    header_timeout: Atom
    body_timeout: Atom
    keepalive_timeout: Atom
    forwarded: Forwarded
    paths: Paths
    drops_underscores: bool
    guards: Section
    routing: Section
    admission: Section
    measures_bodies: bool
    has_mirrors: bool
    has_times: bool
    may_expire: bool
    compresses: bool
    forwards: bool
    edits: tuple[Section, ...]
    use_backend: Section


@record
class L4Frontend:
    """An L4 listener; `idle` is the longest silence of its connections."""

    bind: Bind
    idle: Atom
    statements: tuple[Statement, ...]


@record
class Backend:
    """A pool's endpoints with one set of times. `late` is the time in microseconds from which a failed connection
    attempt counts as timed out; `may_be_empty`: at times no server is up."""

    name: Atom
    pool: Atom
    origin: Atom
    l7: bool
    balance: tuple[Word, ...]
    is_hashed: bool
    connect: Atom
    response: Atom
    idle: Atom
    late: int
    may_be_empty: bool
    statements: tuple[Statement, ...]
    servers: tuple[Statement, ...]


@record
class ActionBackend:
    """A route that redirects or responds."""

    name: Atom
    origin: Atom
    statements: tuple[Statement, ...]


@record
class View:
    """All of haproxy.cfg. `authority` is the regex of a Host header, `head_kib` the room for a request head in KiB,
    `buffer` in bytes.

    `answers_closed`: this version can answer 502 where others only close the connection. `limits_concurrency`,
    `limits_bodies`, `has_times`, `has_mirrors`: some route has these. `shares_state`: some Lua counts for all threads;
    `has_one_state`: all Lua has to run in that state then. `queues`: some endpoints have a limit, so requests may
    wait. `has_passing_check`: some check needs a frontend that accepts every connection. `denied`: the backend for
    connections that an L4 route denies. `purge_delay`: a step in which idle connections to endpoints are closed.
    """

    name: Atom
    authority: Literal
    head_kib: int
    buffer: int
    answers_closed: bool
    limits_concurrency: bool
    limits_bodies: bool
    shares_state: bool
    has_one_state: bool
    lua_files: tuple[Atom, ...]
    frontends: tuple[Frontend, ...]
    l4_frontends: tuple[L4Frontend, ...]
    backends: tuple[Backend, ...]
    action_backends: tuple[ActionBackend, ...]
    nameservers: tuple[Statement, ...]
    has_resolvers: bool
    has_grpc: bool
    purge_delay: Atom
    logs: bool
    has_mirrors: bool
    has_times: bool
    queues: bool
    has_passing_check: bool
    denied: Atom | None
    admin_port: int | None
