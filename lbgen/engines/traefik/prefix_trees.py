"""A tree of routers above many rules: Traefik tries the routers of one parent one after the other.

A group is a router without a service. Groups below one parent part its requests by host, or by how the first segment
of the path that differs begins, and each has every rule that one of its requests can meet, so that priorities decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from msgspec import Struct

from lbgen.engines.traefik.matching import ANY, build_host, call, quote_regex
from lbgen.plan.model import HostTable, Rule

MOST = 50  # rules below one router before there are groups
FIRST = 1_000_000  # priority of the first group
_BUCKETS, _WILDCARDS = 32, 12  # groups below one router, wildcards in one


class Group(Struct, frozen=True, eq=False):
    """A router above rules or other groups; `parent` is the name of the one above it."""

    name: str
    parent: str
    rule: str
    priority: int


class Tree:
    """The groups of a listener, and the parents of each rule by rank."""

    def __init__(self, root: str, tables: Sequence[HostTable], spell: Callable[[str], str]) -> None:
        """Below the router `root`; `spell` gives a part of a path as Traefik's matchers see it."""
        self.groups: list[Group] = []
        self.parents: dict[int, list[str]] = {}
        self._root = root
        self._spell = spell
        if len(tables) == 1:
            self._by_path(root, tables[0].rules, "", 1)
            return
        wild = [table for table in tables if table.host and table.host.wildcard]
        named = [table for table in tables if table.host and table not in wild and ":" not in table.host.name]
        self._by_name(root, named)
        for table in tables:
            if table.host and table not in named and table not in wild:
                self._by_path(self._add(root, build_host(table.host)[0]), table.rules, "", 1)
        self._by_wildcard(root, wild, _WILDCARDS)
        self._by_path(self._add(root, ANY), tables[-1].rules, "", 1)

    def _add(self, parent: str, rule: str) -> str:
        name = f"{self._root}.{len(self.groups) + 1}"
        self.groups.append(Group(name, parent, rule, FIRST - len(self.groups)))
        return name

    def _leaf(self, parent: str, rules: Iterable[Rule]) -> None:
        for rule in rules:
            self.parents.setdefault(rule.rank, []).append(parent)

    def _by_name(self, parent: str, tables: Sequence[HostTable]) -> None:
        """Part requests by host; those of other hosts meet other groups."""
        by_name = {table.host.name: table for table in tables if table.host}
        for start, names in _bucket(by_name).items():
            rest = "|".join(quote_regex(name[len(start) :]) for name in names)
            alone = build_host(by_name[names[0]].host)[0] if len(names) == 1 else ""
            group = self._add(parent, alone or call("HostRegexp", rf"^{quote_regex(start)}(?:{rest})\.?$"))
            rules = _ranked(rule for name in names for rule in by_name[name].rules)
            if len(names) == 1:
                self._by_path(group, rules, "", 1)
            elif len(rules) > MOST:
                self._by_name(group, [by_name[name] for name in names])
            else:
                self._leaf(group, rules)

    def _by_wildcard(self, parent: str, tables: Sequence[HostTable], together: int) -> None:
        """Part requests by wildcard, in the order of the tables, the narrow ones first."""
        for start in range(0, len(tables), together):
            few = tables[start : start + together]
            names = "|".join(quote_regex(table.host.name) for table in few if table.host)
            group = self._add(parent, call("HostRegexp", rf"^.+\.(?:{names})\.?$"))
            rules = _ranked(rule for table in few for rule in table.rules)
            if len(few) == 1:
                self._by_path(group, rules, "", 1)
            elif len(rules) > MOST:
                self._by_wildcard(group, few, 1)
            else:
                self._leaf(group, rules)

    def _by_path(self, parent: str, rules: Sequence[Rule], above: str, depth: int) -> None:
        """Part requests by the segment of the path at `depth`, 1 = the first; `above` is the path until there."""
        named: dict[str, list[Rule]] = {}
        shared: list[Rule] = []
        for rule in rules:
            segments = _segments(rule)
            (named.setdefault(self._spell(segments[depth]), []) if len(segments) > depth else shared).append(rule)
        if len(rules) <= MOST or not named:
            self._leaf(parent, rules)
        elif len(named) == 1:
            ((segment, below),) = named.items()
            self._by_path(
                self._add(parent, _begins(above, segment, whole=True)),
                _ranked([*below, *shared]),
                f"{above}/{segment}",
                depth + 1,
            )
            self._leaf(self._add(parent, ANY), shared)
        else:
            self._by_segment(parent, named, shared, above, depth)

    def _by_segment(
        self, parent: str, named: dict[str, list[Rule]], shared: Sequence[Rule], above: str, depth: int
    ) -> None:
        """Part requests by how that segment begins; each group has the rules that may meet any segment."""
        for start, segments in _bucket(named).items():
            group = self._add(parent, _begins(above, start, whole=len(segments) == 1))
            below = [rule for segment in segments for rule in named[segment]]
            if len(segments) == 1:
                self._by_path(group, _ranked([*below, *shared]), f"{above}/{segments[0]}", depth + 1)
            elif len(below) > MOST:
                self._by_segment(group, {each: named[each] for each in segments}, shared, above, depth)
            else:
                self._leaf(group, _ranked([*below, *shared]))
        self._leaf(self._add(parent, ANY), shared)


def _bucket(texts: Iterable[str]) -> dict[str, list[str]]:
    """The texts by how they begin, in at least two and at most `_BUCKETS` buckets where that can be. A text that others
    begin with has its own bucket, before theirs."""
    ordered = sorted(texts)
    found: dict[str, list[str]] = {}
    for length in range(1, max(map(len, ordered), default=0) + 1):
        buckets: dict[str, list[str]] = {}
        for text in ordered:
            buckets.setdefault(text[:length], []).append(text)
        if len(found) > 1 and len(buckets) > _BUCKETS:
            break
        found = buckets
    return {start if len(each) > 1 else each[0]: each for start, each in found.items()}


def _begins(above: str, start: str, *, whole: bool) -> str:
    """The condition for a segment that begins so, or that is just this."""
    path = f"{above}/{start}"
    return f"{call('Path', path)} || {call('PathPrefix', path + '/')}" if whole else call("PathPrefix", path)


def _segments(rule: Rule) -> list[str]:
    """The literal segments of a path after an empty first one: none when it may be any."""
    path = rule.match.path
    if not path.is_text or path.covers_all:
        return [""]
    return path.value.split("/")


def _ranked(rules: Iterable[Rule]) -> list[Rule]:
    return sorted({rule.rank: rule for rule in rules}.values(), key=attrgetter("rank"))
