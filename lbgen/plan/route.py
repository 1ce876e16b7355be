"""Routes and their actions."""

from __future__ import annotations

from dataclasses import dataclass

from lbgen.plan.policy import Access, Buffering, Compression, Concurrency, Cors, Mirror, RateLimit, Retries


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

    connect: int = 5_000
    response: int = 60_000
    idle: int = 60_000
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
    """A sticky cookie of an endpoint of any of `targets` overrides the weights."""

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
    """`headers` are complete, content-type included."""

    status: int
    body: str
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Route:
    """`index` is the position in the file. An L4 route has a Forward with one or more targets and no edits."""

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
