"""Routes and their actions."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from lbgen.plan.auth import Auth  # read at run time, as plans are saved
from lbgen.plan.error_pages import ErrorPage  # read at run time, as plans are saved
from lbgen.plan.policy import Access, Buffering, Compression, Concurrency, Cors, Mirror, RateLimit, Retries
from lbgen.plan.values import Template, Value


class HeaderEdits(Struct, frozen=True):
    """Applied as remove, then set (replaces all lines of that name), then add (a further line). Lower-case names."""

    set: tuple[tuple[str, Value], ...] = ()
    add: tuple[tuple[str, Value], ...] = ()
    remove: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.set or self.add or self.remove)

    def values(self) -> Sequence[Value]:
        """The values that are set or added."""
        return [value for _, value in (*self.set, *self.add)]

    @property
    def is_dynamic(self) -> bool:
        """Whether some value has placeholders."""
        return bool(self.set or self.add) and any(isinstance(value, Template) for value in self.values())


class Target(Struct, frozen=True):
    """One share of a split; `request_headers` come after the route's own."""

    pool: str
    weight: int
    request_headers: HeaderEdits
    field: str


class Timeouts(Struct, frozen=True):
    """Milliseconds, 0 = no limit. `response` runs from the request sent to the response head, `idle` is the longest
    silence of a body or tunnel in either direction."""

    connect: int = 5_000
    response: int = 60_000
    idle: int = 60_000
    request: int = 0  # all tries, to the last byte


class Rewrite(Struct, frozen=True):
    """`prefix` replaces the matched prefix (or the matched exact path), `path` the whole path; one of them at most.
    `host` replaces the Host. The query is kept."""

    prefix: str | None = None
    path: str | None = None
    host: str | None = None


class Forward(Struct, frozen=True, tag=True):
    """A sticky cookie of an endpoint of any of `targets` overrides the weights."""

    targets: tuple[Target, ...]  # weights as written, at least one above 0
    timeouts: Timeouts
    rewrite: Rewrite | None = None
    retries: Retries | None = None
    buffering: Buffering = Buffering()
    mirrors: tuple[Mirror, ...] = ()

    def values(self) -> Sequence[Value]:
        """None: it answers nothing by itself."""
        return ()


class Redirect(Struct, frozen=True, tag=True):
    """None = as the request has it (contract section 4 says how host and port follow). `to` is the whole address, and
    excludes the others."""

    status: int
    scheme: str | None = None
    host: Value | None = None
    port: int | None = None
    path: Value | None = None
    prefix: str | None = None
    to: Value | None = None

    def values(self) -> Sequence[Value]:
        """What may have placeholders."""
        return [each for each in (self.host, self.path, self.to) if each is not None]


class Respond(Struct, frozen=True, tag=True):
    """`headers` are complete, content-type included."""

    status: int
    body: Value
    headers: tuple[tuple[str, Value], ...]

    def values(self) -> Sequence[Value]:
        """What may have placeholders."""
        return [self.body, *(value for _, value in self.headers)]


class Route(Struct, frozen=True):
    """`index` is the position in the file. An L4 route has a Forward with one or more targets and no edits.
    `error_pages` are the route's own, in the order of trial, before those of its listeners."""

    name: str
    index: int
    action: Forward | Redirect | Respond
    field: str
    request_headers: HeaderEdits = HeaderEdits()
    response_headers: HeaderEdits = HeaderEdits()
    access: Access | None = None
    auth: Auth | None = None
    rate_limit: RateLimit | None = None
    concurrency: Concurrency | None = None
    max_body: int | None = None
    cors: Cors | None = None
    compression: Compression | None = None
    error_pages: tuple[ErrorPage, ...] = ()
