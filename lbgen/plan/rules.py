"""Rules, and the conditions by which they take a request: host, path, method, headers, query and cookies."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class PathKind(StrEnum):
    """Tried in this order within one host."""

    EXACT = "exact"
    REGEX = "regex"
    PREFIX = "prefix"


class ValueKind(StrEnum):
    EXACT = "exact"
    REGEX = "regex"
    PRESENT = "present"  # there and not empty


class HostPattern(Struct, frozen=True, cache_hash=True):
    """`name` is lower-case, no port or trailing dot; a wildcard's name lacks the `*.` and covers any depth below."""

    name: str
    wildcard: bool = False

    def __str__(self) -> str:
        return f"*.{self.name}" if self.wildcard else self.name

    def covers(self, host: str) -> bool:
        """Whether a request for `host` (lower-case, no port, no trailing dot) belongs to this pattern."""
        return host.endswith("." + self.name) if self.wildcard else host == self.name

    def covers_pattern(self, other: HostPattern) -> bool:
        """Whether every host of `other` belongs to this pattern."""
        if not self.wildcard:
            return self == other
        return other == self or other.name.endswith("." + self.name)


class PathMatch(Struct, frozen=True):
    """A prefix has no trailing slash, but `/` itself; escapes are in upper-case hex. A regex matches the whole path."""

    kind: PathKind
    value: str

    @property
    def covers_all(self) -> bool:
        return self.kind is PathKind.PREFIX and self.value == "/"


class ValueMatch(Struct, frozen=True):
    """How a header, query parameter or cookie value is compared; a regex matches the whole value."""

    kind: ValueKind
    value: str = ""


class NamedMatch(Struct, frozen=True):
    """A header (lower-case name), query parameter or cookie (both case-sensitive) and what its value must be."""

    name: str
    value: ValueMatch


class Match(Struct, frozen=True):
    """All parts must hold. `methods` empty = any method; the three lists are sorted by name."""

    path: PathMatch
    methods: tuple[str, ...] = ()
    headers: tuple[NamedMatch, ...] = ()
    query: tuple[NamedMatch, ...] = ()
    cookies: tuple[NamedMatch, ...] = ()

    @property
    def path_only(self) -> bool:
        """Whether the path is the only condition."""
        return not (self.methods or self.headers or self.query or self.cookies)

    @property
    def covers_all(self) -> bool:
        """Whether it is the catch-all: prefix `/` and no further condition."""
        return self.path.covers_all and self.path_only


class Rule(Struct, frozen=True):
    """One way into a route: a host pattern (None = every host) and a match. `rank` 0 is tried first, plan-wide."""

    id: str  # unique in the plan, a safe word: <route name>.<n>
    rank: int
    route: str
    host: HostPattern | None
    match: Match
    field: str


class HostTable(Struct, frozen=True):
    """Every rule that a request for `host` (None = any host without a table of its own) can meet, in order.

    The list is complete: rules of wider hosts are copied in, and it ends at the first catch-all. An engine picks
    the most specific table for a request and needs no other. A request that no rule takes gets 404.
    """

    host: HostPattern | None
    rules: tuple[Rule, ...]


class L4Rule(Struct, frozen=True):
    """One way into an L4 route. `sni` None = any or none; `sources` are CIDRs, empty = everyone."""

    id: str
    rank: int
    route: str
    sni: HostPattern | None
    sources: tuple[str, ...]
    field: str
