"""Rules, and what they ask of a request: a host, a path and further conditions."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from lbgen.plan.conditions import AnySubject, Condition, OneOf
from lbgen.plan.path_conditions import Path  # read at run time by saved


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


class Match(Struct, frozen=True):
    """All conditions must hold. They stand in the order of their subjects, then of their names."""

    path: Path
    conditions: tuple[Condition, ...] = ()

    @property
    def path_only(self) -> bool:
        """Whether the path is the only condition."""
        return not self.conditions

    @property
    def covers_all(self) -> bool:
        """Whether it is the catch-all: prefix `/` and no further condition."""
        return self.path.covers_all and not self.conditions

    @property
    def methods(self) -> tuple[str, ...]:
        """The only methods that it covers; empty where it may cover any."""
        return next((x.operator.values for x in self.conditions if isinstance(x.operator, OneOf)), ())

    @property
    def asks_client(self) -> bool:
        """Whether it depends on the client's address."""
        return any(each.subject.is_client for each in self.conditions)

    def on(self, subject: type[AnySubject]) -> Iterator[Condition]:
        """The conditions on one kind of subject."""
        return (each for each in self.conditions if type(each.subject) is subject)


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
