"""The order in which rules are tried, complete tables for each host, and groups for path trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import merge
from ipaddress import ip_network
from operator import attrgetter
from typing import TypeVar

from msgspec import Struct

from lbgen.plan.conditions import SUBJECTS
from lbgen.plan.model import HostPattern, HostTable, L4Rule, Match, Rule
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath, covering_prefixes

_K = TypeVar("_K")
_V = TypeVar("_V")

_BY_RANK = attrgetter("rank")
_PATH_ALONE = [0] * len(SUBJECTS)
_CASE_OPEN = re.compile("%(?:[A-F].|.[A-F])")  # an escape that a client may also write in lower case


class UnrankedRule(Struct, frozen=True, eq=False):
    """A rule that has no rank yet. Entries are given in the order of the file."""

    id: str
    route: str
    priority: int
    host: HostPattern | None
    match: Match
    field: str


class UnrankedL4Rule(Struct, frozen=True, eq=False):
    """An L4 rule that has no rank yet. Entries are given in the order of the file."""

    id: str
    route: str
    priority: int
    sni: HostPattern | None
    sources: tuple[str, ...]
    field: str


class Candidate(Struct, frozen=True, eq=False):
    """A rule that requests of one path group can meet. `test_path`: its path (always a pattern) must still be tested;
    otherwise the group implies it."""

    rule: Rule
    test_path: bool

    @property
    def unconditional(self) -> bool:
        """Whether every request of the group meets it."""
        return not self.test_path and self.rule.match.path_only


class PathGroup(Struct, frozen=True, eq=False):
    """All requests of one table that go the same way through a path tree; see `path_groups`. `kind` is ExactPath or
    PrefixPath."""

    kind: type[Path]
    path: str
    candidates: tuple[Candidate, ...]


def host_order(host: HostPattern | None) -> tuple[int, int]:
    """Sort key: exact hosts, then wildcards (longer first), then every host."""
    if host is None:
        return (2, 0)
    return (1, -len(host.name)) if host.wildcard else (0, 0)


def _order(entry: UnrankedRule) -> tuple[object, ...]:
    path = entry.match.path
    return (
        -entry.priority,
        host_order(entry.host),
        (path.order, -path.length),
        _weights(entry.match) if entry.match.conditions else _PATH_ALONE,
    )


def _weights(match: Match) -> list[int]:
    weights = dict.fromkeys(SUBJECTS, 0)
    for each in match.conditions:
        weights[type(each.subject)] -= each.operator.weight
    return list(weights.values())


def rank_rules(entries: Iterable[UnrankedRule]) -> tuple[Rule, ...]:
    """The rules in the order of trial, which is total: rank 0 is tried first."""
    return tuple(
        Rule(e.id, rank, e.route, e.host, e.match, e.field) for rank, e in enumerate(sorted(entries, key=_order))
    )


def _l4_order(entry: UnrankedL4Rule) -> tuple[object, ...]:
    longest = max((ip_network(source).prefixlen for source in entry.sources), default=-1)
    return (-entry.priority, host_order(entry.sni), -longest)


def rank_l4_rules(entries: Iterable[UnrankedL4Rule]) -> tuple[L4Rule, ...]:
    """The same for L4: priority, SNI as hosts, longest source network, order in the file."""
    return tuple(
        L4Rule(e.id, rank, e.route, e.sni, e.sources, e.field) for rank, e in enumerate(sorted(entries, key=_l4_order))
    )


@lru_cache(maxsize=4096)  # many routes have the same
def covering_hosts(host: HostPattern | None) -> tuple[HostPattern | None, ...]:
    """`host` and every pattern that covers it, narrow to wide, None last."""
    if host is None:
        return (None,)
    found, name = [host], host.name
    while "." in name:
        name = name.partition(".")[2]
        found.append(HostPattern(name, wildcard=True))
    return (*found, None)


def host_tables(rules: Iterable[Rule]) -> tuple[HostTable, ...]:
    """One complete table per host pattern in `rules`: exact hosts, longer wildcards, and always the hostless one last.

    Guarantee: for a request, take its exact table, else that of the longest wildcard covering it, else the hostless
    one; the first rule of that table which holds is the one the contract asks for, and no other table is needed.
    A table holds the rules of every wider host in order of rank and ends at its first catch-all, so a host with a
    catch-all of its own copies nothing; a host without one costs a copy of the wider rules.
    """
    own = group((rule.host, rule) for rule in sorted(rules, key=_BY_RANK))
    hosts = sorted((h for h in own if h is not None), key=lambda h: (host_order(h), h.name))
    return tuple(HostTable(host, tuple(_meetable(host, own))) for host in (*hosts, None))


def _meetable(host: HostPattern | None, own: Mapping[HostPattern | None, Sequence[Rule]]) -> Iterator[Rule]:
    for rule in merge(*(own[h] for h in covering_hosts(host) if h in own), key=_BY_RANK):
        yield rule
        if rule.match.covers_all:
            return


def path_groups(rules: Sequence[Rule]) -> tuple[PathGroup, ...]:
    """The rules of one table by the paths they name, for engines that find a path in a tree before anything else.

    Guarantee: a request belongs to the exact group of its path (upper-case hex escapes) if there is one, else to the
    longest prefix group that covers it by segment, else no rule takes it. The first candidate of its group that holds
    is the rule that the table asks for, and a group whose candidates all fail means 404: no other group is needed.
    Candidates are in order of trial and end at the first unconditional one. A group decides exact and prefix paths
    itself. A pattern is decided in an exact group (unless the path has an escape that a client may write in the other
    case) and stays to be tested in a prefix group; patterns that cannot match there are left out. When one can match
    below no prefix, a prefix group `/` is made for it. Groups are sorted: exact by path, then prefix longest first.
    """
    exact = group((r.match.path.value, r) for r in rules if isinstance(r.match.path, ExactPath))
    prefix = group((r.match.path.value, r) for r in rules if isinstance(r.match.path, PrefixPath))
    patterns = _Patterns([r for r in rules if not r.match.path.is_text], prefix)
    groups = [
        PathGroup(ExactPath, path, _candidates(path, exact[path], prefix, patterns.at(path))) for path in sorted(exact)
    ]
    for path in sorted({*prefix, "/"}, key=lambda p: (-len(p), p)):
        if candidates := _candidates(path, (), prefix, patterns.below(path)):
            groups.append(PathGroup(PrefixPath, path, candidates))
    return tuple(groups)


def _candidates(
    path: str, own: Sequence[Rule], prefix: Mapping[str, Sequence[Rule]], patterns: Iterator[Candidate] | None
) -> tuple[Candidate, ...]:
    implied = [prefix[p] for p in covering_prefixes(path) if p in prefix]
    if own:
        implied.insert(0, own)
    if patterns is None and len(implied) == 1 and implied[0][0].match.path_only:
        return (Candidate(implied[0][0], test_path=False),)  # most paths have one rule
    decided = [[Candidate(rule, test_path=False) for rule in implying] for implying in implied]
    sources = (*decided, patterns) if patterns is not None else decided
    return tuple(until_unconditional(merge(*sources, key=lambda c: c.rule.rank)))


def until_unconditional(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The candidates up to the first one that every request of their group meets."""
    for candidate in candidates:
        yield candidate
        if candidate.unconditional:
            return


class _Patterns:
    """The rules of a table whose paths have to be tested, found by the text that every path they match begins with."""

    def __init__(self, rules: Iterable[Rule], prefix: Mapping[str, Sequence[Rule]]) -> None:
        self._starts = group((rule.match.path.start, rule) for rule in rules)
        self._lengths = sorted({len(start) for start in self._starts})
        # A pattern whose matches all lie below a prefix concerns that prefix and those inside it, no wider one.
        self._homes = group(
            (next((p for p in covering_prefixes(start.rpartition("/")[0]) if p in prefix), "/"), rule)
            for start, same_start in self._starts.items()
            for rule in same_start
        )
        for same_home in self._homes.values():
            same_home.sort(key=_BY_RANK)

    def at(self, path: str) -> Iterator[Candidate] | None:
        """Candidates for this one path, in order of rank; None where there is no pattern."""
        return self._at(path) if self._starts else None

    def below(self, path: str) -> Iterator[Candidate] | None:
        """Candidates for the paths below this prefix and below none inside it, in order of rank; None as `at`."""
        return self._below(path) if self._starts else None

    def _at(self, path: str) -> Iterator[Candidate]:
        for rule in self._possible(path):
            if _CASE_OPEN.search(path):
                yield Candidate(rule, test_path=True)
            elif rule.match.path.matches(path):
                yield Candidate(rule, test_path=False)

    def _below(self, path: str) -> Iterator[Candidate]:
        last = None
        for rule in merge(self._possible(path.rstrip("/") + "/"), self._homes.get(path, ()), key=_BY_RANK):
            if rule is not last:
                yield Candidate(rule, test_path=True)
            last = rule

    def _possible(self, text: str) -> Iterator[Rule]:
        """Rules whose literal start `text` begins with."""
        starts = (text[:length] for length in self._lengths if length <= len(text))
        return merge(*(self._starts[start] for start in starts if start in self._starts), key=_BY_RANK)


def group(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    """The values of each key, in their order."""
    found: dict[_K, list[_V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
