"""What a plan's routes and pools ask beyond forwarding: health, retries, limits, sticky cookies, CORS and the like.

Frozen data, every default written out. Times are whole milliseconds (0 = no limit), sizes bytes, header names
lower-case. docs/contract.md says how each behaves; nothing here is an engine's word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address, ip_network

# RFC 9110 9.2.2. TRACE is never served.
IDEMPOTENT = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")
REPLAYED_BODY = 16 * 1024  # bytes of a body that further tries send again, where it is not held whole
SUBDOMAIN_CHARACTER = "[A-Za-z0-9.-]"  # what the host of an origin that a wildcard covers may hold, as a regex


class PathsMode(StrEnum):
    STRICT = "strict"
    NORMALIZE = "normalize"
    VERBATIM = "verbatim"


@dataclass(frozen=True, slots=True)
class Paths:
    """Which targets are let in. The three flags are exceptions of `strict`."""

    mode: PathsMode = PathsMode.STRICT
    empty_segments: bool = False
    encoded_slash: bool = False
    encoded_unreserved: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """CIDRs. `deny` is asked first; `allow` None = everybody else, given = nobody else. About the client's address."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def admits(self, client: str) -> bool:
        """Whether a client of that address may come in."""
        address = ip_address(client)
        address = getattr(address, "ipv4_mapped", None) or address
        if any(address in ip_network(network) for network in self.deny):
            return False
        return self.allow is None or any(address in ip_network(network) for network in self.allow)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes; None = not limited beyond what an engine can hold (at least 8 KiB target, 16 KiB headers). `headers`
    counts name + value + 4 of each line."""

    headers: int | None = None
    target: int | None = None


class KeyKind(StrEnum):
    """What is counted, hashed or found together."""

    ROUTE = "route"
    CLIENT_IP = "client_ip"
    HEADER = "header"
    COOKIE = "cookie"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class Key:
    """`name` of the header (lower-case), cookie or query parameter; "" for the other kinds."""

    kind: KeyKind
    name: str = ""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token bucket per value of `key`: `burst` tokens at first, `amount` come back evenly over `seconds`. A request
    without the header of `key` is not counted. A refused request costs nothing."""

    amount: int
    seconds: int
    burst: int
    key: Key


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Requests of this route under way, per value of `key`."""

    max: int
    key: Key


class RetryCause(StrEnum):
    CONNECT_FAILURE = "connect_failure"  # refused, or connect time over
    RESET = "reset"  # reset or closed before the response head
    TIMEOUT = "timeout"  # response time over


@dataclass(frozen=True, slots=True)
class Retries:
    """`max` extra tries, each at another endpoint when there is one. A connect failure is retried for any method,
    everything else for idempotent ones unless `all_methods`. `budget`: percent of requests under way, None = none."""

    max: int
    causes: frozenset[RetryCause]
    statuses: tuple[int, ...]
    all_methods: bool = False
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class Mirror:
    """A copy of `percent` of the requests, as the endpoint gets them; its answer is dropped."""

    pool: str
    percent: float
    field: str


@dataclass(frozen=True, slots=True)
class Origin:
    """`scheme://host[:port]`, lower-case; `any` = every origin; a wildcard's host lacks the `*.` (any depth below)."""

    scheme: str
    host: str
    port: int | None = None
    wildcard: bool = False
    any: bool = False

    def covers(self, origin: str) -> bool:
        """Whether a page of `origin` (an Origin header's value) is meant."""
        if self.any:
            return True
        scheme, _, rest = origin.partition("://")
        suffix = "" if self.port is None else f":{self.port}"
        if scheme != self.scheme or not rest.endswith(suffix):
            return False
        host = rest[: len(rest) - len(suffix)] if suffix else rest
        if not self.wildcard:
            return host == self.host
        # A path or a user before an allowed name is no host below it.
        return host.endswith("." + self.host) and re.fullmatch(f"{SUBDOMAIN_CHARACTER}*", host) is not None


@dataclass(frozen=True, slots=True)
class Cors:
    """`methods` upper-case, `headers` lower-case, both as asked (methods: GET, HEAD, POST unless said). `max_age`
    None = no Access-Control-Max-Age; else whole seconds."""

    origins: tuple[Origin, ...]
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    expose_headers: tuple[str, ...]
    credentials: bool
    max_age: int | None


@dataclass(frozen=True, slots=True)
class Compression:
    """gzip for clients that accept it, of answers of these media types with no Content-Encoding of their own and a
    Content-Length of at least `min_size` bytes, or none."""

    types: tuple[str, ...]
    min_size: int = 1024  # below, gzip gains nothing


@dataclass(frozen=True, slots=True)
class Buffering:
    """`request`: an endpoint is asked only when the whole body is there. `response`: a slow client does not hold the
    endpoint up. False = bytes are passed on as they come."""

    request: bool = False
    response: bool = False


@dataclass(frozen=True, slots=True)
class ActiveHealth:
    """`path` None = a connection is enough. `port` None = the endpoint's. `statuses` are (first, last). All endpoints
    count as up until `fall` checks failed."""

    path: str | None
    port: int | None
    interval: int
    timeout: int
    fall: int
    rise: int
    statuses: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PassiveHealth:
    """So many failures in a row of one endpoint (connect, reset, response time, 5xx) take it out for `eject_for`."""

    failures: int
    eject_for: int


@dataclass(frozen=True, slots=True)
class Queue:
    """Requests that wait for an endpoint below its `max_per_endpoint`; 503 for more, and after `timeout`."""

    size: int
    timeout: int


@dataclass(frozen=True, slots=True)
class Sticky:
    """`NAME=<Endpoint.cookie_value>; Path=/; HttpOnly; SameSite=Lax`, with `Max-Age` (`ttl`, seconds) and `Secure`.

    Set when the request has no cookie of a usable endpoint; the request's own goes on to the endpoint unchanged."""

    cookie: str
    ttl: int | None
    secure: bool
