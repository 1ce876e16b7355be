"""Policies of listeners, routes and pools: paths, access, limits, retries, health, CORS and others.

Frozen data, every default written out. Times are whole milliseconds (0 = no limit), sizes bytes, header names
lower-case. docs/contract.md describes how each behaves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from lbgen.plan.addresses import is_within

# RFC 9110 9.2.2. TRACE is never served.
IDEMPOTENT = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")
REPLAYED_BODY = 16 * 1024  # bytes of a body that retries can resend, where the body is not buffered whole
SUBDOMAIN_CHARACTER = "[A-Za-z0-9.-]"  # a regex for the characters of a host below a wildcard origin


class PathsMode(StrEnum):
    STRICT = "strict"
    NORMALIZE = "normalize"
    VERBATIM = "verbatim"


class Paths(Struct, frozen=True):
    """The request targets that are accepted. The three flags are exceptions to `strict`."""

    mode: PathsMode = PathsMode.STRICT
    empty_segments: bool = False
    encoded_slash: bool = False
    encoded_unreserved: bool = False


class Access(Struct, frozen=True):
    """Networks of clients' addresses. `deny` is checked first; then `allow` None admits all, else only its own."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def admits(self, client: str) -> bool:
        """Whether a client of that address is admitted."""
        return not is_within(client, self.deny) and (self.allow is None or is_within(client, self.allow))


class Limits(Struct, frozen=True):
    """Bytes; None = the engine's own limit (at least 8 KiB target, 16 KiB headers). `headers`
    counts name + value + 4 of each line."""

    headers: int | None = None
    target: int | None = None


class KeyKind(StrEnum):
    """The kind of key that requests are counted or hashed by."""

    ROUTE = "route"
    CLIENT_IP = "client_ip"
    HEADER = "header"
    COOKIE = "cookie"
    QUERY = "query"


class Key(Struct, frozen=True):
    """`name` of the header (lower-case), cookie or query parameter; "" for the other kinds."""

    kind: KeyKind
    name: str = ""


class RateLimit(Struct, frozen=True):
    """A token bucket for each value of `key`: `burst` tokens at first, refilled evenly by `amount` in `seconds`. A
    request without the header of `key` is not counted. A refused request takes no token."""

    amount: int
    seconds: int
    burst: int
    key: Key


class Concurrency(Struct, frozen=True):
    """The most active requests of the route for each value of `key`."""

    max: int
    key: Key


class RetryCause(StrEnum):
    CONNECT_FAILURE = "connect_failure"  # refused, or connect time over
    RESET = "reset"  # reset or closed before the response head
    TIMEOUT = "timeout"  # response time over


class Retries(Struct, frozen=True):
    """`max` extra tries, each at another endpoint where there is one. Connect failures are retried for any method, all
    else for idempotent methods unless `all_methods`. `budget`: percent of active requests, None = no limit."""

    max: int
    causes: frozenset[RetryCause]
    statuses: tuple[int, ...]
    all_methods: bool = False
    budget: float | None = None

    def __repr__(self) -> str:
        """With the causes in the same order in every process, as the digest of a stack is that of its plan's text."""
        values = (getattr(self, name) for name in self.__struct_fields__)
        return f"Retries{tuple(sorted(each) if isinstance(each, frozenset) else each for each in values)}"


class Mirror(Struct, frozen=True):
    """A copy of `percent` of the requests as sent to the endpoint; its response is dropped."""

    pool: str
    percent: float
    field: str


class Origin(Struct, frozen=True):
    """What a browser sends as Origin, in lower case; `any` = every origin. A wildcard's host lacks the `*.` (any depth
    below); `null` has no scheme."""

    scheme: str
    host: str
    port: int | None = None
    wildcard: bool = False
    any: bool = False
    any_port: bool = False  # the scheme's own, which browsers leave out, among them

    @property
    def is_exact(self) -> bool:
        """Whether `text` is all that it covers."""
        return not (self.any or self.wildcard or self.any_port)

    @property
    def text(self) -> str:
        """The origin that it names, or one that it covers."""
        if not self.scheme:
            return "*" if self.any else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{'deep.' if self.wildcard else ''}{self.host}{port}"

    def pattern(self, quote: Callable[[str], str]) -> str:
        """A regex for the whole value of an Origin header; `quote` escapes text for the engine that reads it."""
        # `evil/a.example` and `user@a.example` are not subdomains.
        below = f"{SUBDOMAIN_CHARACTER}*[.]" if self.wildcard else ""
        port = "(:[0-9]+)?" if self.any_port else "" if self.port is None else f":{self.port}"
        return f"{quote(self.scheme)}://{below}{quote(self.host)}{port}"

    def covers(self, origin: str) -> bool:
        """Whether `origin`, an Origin header's value, is covered."""
        if self.is_exact:
            return origin == self.text
        return self.any or re.fullmatch(self.pattern(re.escape), origin) is not None


class Cors(Struct, frozen=True):
    """`methods` upper-case, `headers` lower-case, both as written (methods: GET, HEAD, POST by default). `max_age`
    None = no Access-Control-Max-Age; else whole seconds."""

    origins: tuple[Origin, ...]
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    expose_headers: tuple[str, ...]
    credentials: bool
    max_age: int | None


class Compression(Struct, frozen=True):
    """gzip, for clients that accept it, of responses of these media types without Content-Encoding whose Content-Length
    is absent or at least `min_size`."""

    types: tuple[str, ...]
    min_size: int = 1024  # below, gzip gains nothing


class Buffering(Struct, frozen=True):
    """`request`: the body is read whole before the request is sent. `response`: the body is read whole first, or as
    the engine does by itself (None). False = bytes are forwarded as they arrive."""

    request: bool = False
    response: bool | None = None


class ActiveHealth(Struct, frozen=True):
    """`path` None = connect only. `port` None = the endpoint's. `statuses` are (first, last). Endpoints are up at
    first, until `fall` checks in a row fail."""

    path: str | None
    port: int | None
    interval: int
    timeout: int
    fall: int
    rise: int
    statuses: tuple[tuple[int, int], ...]


class PassiveHealth(Struct, frozen=True):
    """`failures` in a row of an endpoint (connect, reset, response timeout, 5xx) eject it for `eject_for`."""

    failures: int
    eject_for: int


class Queue(Struct, frozen=True):
    """At most `size` requests wait for a free endpoint; more, and those that wait longer than `timeout`, get 503."""

    size: int
    timeout: int


class Sticky(Struct, frozen=True):
    """`NAME=<Endpoint.cookie_value>; Path=/; HttpOnly; SameSite=Lax`, with `Max-Age` (`ttl`, seconds) and `Secure`.

    Set when the request has no cookie of a usable endpoint. The request's own cookie is forwarded unchanged."""

    cookie: str
    ttl: int | None
    secure: bool
