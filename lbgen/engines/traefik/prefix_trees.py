"""A tree of routers above many rules: Traefik tries the routers of one parent one after the other.

A group is a router without rules of its own. Groups below one parent part its requests by host or by the first segment
of the path that differs, and each has every rule that one of its requests can meet, so that priorities still decide.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from lbgen.engines.traefik.conditions import ANY
from lbgen.engines.traefik.matching import build_host, call, quote_regex
from lbgen.plan.model import PathKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lbgen.plan.model import HostTable, Rule

_T = TypeVar("_T")

MOST = 50  # rules below one router before there are groups
FIRST = 1_000_000  # priority of the first group
_FEW = 12  # groups, or parts of a group, below one router


class Group(Struct, frozen=True, eq=False):
    """A router above rules or other groups; `parent` is the name of the one above it."""

    name: str
    parent: str
    rule: str
    priority: int


class Tree:
    """The groups of a listener, and the parents of each rule by rank. `leaves` are the parents of rules."""

    def __init__(self, root: str, tables: Sequence[HostTable], spell: Callable[[str], str]) -> None:
        """Below the router `root`; `spell` gives a part of a path as Traefik's matchers see it."""
        self.groups: list[Group] = []
        self.parents: dict[int, list[str]] = {}
        self.leaves: list[str] = []
        self._root = root
        self._spell = spell
        rules = _union(tables)
        if len(rules) <= MOST or len(tables) == 1:
            self._by_path(root, rules, 1)
            return
        exact = [table for table in tables if table.host is not None and not table.host.wildcard]
        wild = [table for table in tables if table.host is not None and table.host.wildcard]
        self._by_host(root, exact, "^")
        self._by_host(root, wild, r"^.+\.")
        self._by_path(self._add(root, ANY), _union(table for table in tables if table.host is None), 1)

    def _add(self, parent: str, rule: str) -> str:
        name = f"{self._root}.{len(self.groups) + 1}"
        self.groups.append(Group(name, parent, rule, FIRST - len(self.groups)))
        return name

    def _leaf(self, parent: str, rules: Iterable[Rule]) -> None:
        self.leaves.append(parent)
        for rule in rules:
            self.parents.setdefault(rule.rank, []).append(parent)

    def _by_host(self, parent: str, tables: Sequence[HostTable], start: str) -> None:
        """Part requests by host, narrow to wide."""
        for chunk in _chunks(tables):
            if len(chunk) == 1:
                self._by_path(self._add(parent, build_host(chunk[0].host)[0]), chunk[0].rules, 1)
                continue
            hosts = "|".join(quote_regex(table.host.name) for table in chunk if table.host is not None)
            name = self._add(parent, call("HostRegexp", rf"{start}(?:{hosts})\.?$"))
            if len(rules := _union(chunk)) <= MOST:
                self._leaf(name, rules)
            else:
                self._by_host(name, chunk, start)

    def _by_segment(self, parent: str, above: str, segments: Sequence[str], held: Mapping[str, list[Rule]]) -> None:
        """Part requests by one segment of the path, all of them below `parent`."""
        for chunk in _chunks(segments):
            name = self._add(parent, self._path_rule(above, chunk))
            if len(chunk) <= _FEW:
                self._leaf(name, _ranked(rule for segment in chunk for rule in held[segment]))
            else:
                self._by_segment(name, above, chunk, held)

    def _path_rule(self, above: str, segments: Iterable[str]) -> str:
        texts = "|".join(quote_regex(self._spell(segment)) for segment in segments)
        return call("PathRegexp", f"^{above}/(?:{texts})(?:/|$)")

    def _by_path(self, parent: str, rules: Sequence[Rule], depth: int) -> None:
        """Part requests by the segment of the path at `depth`, where 1 is the first."""
        named: dict[str, list[Rule]] = {}
        shared: list[Rule] = []
        for rule in rules:
            segments = _segments(rule)
            (named.setdefault(segments[depth], []) if len(segments) > depth else shared).append(rule)
        if len(rules) <= MOST or not named:
            self._leaf(parent, rules)
            return
        above = r"/[^/]*" * (depth - 1)
        big = [segment for segment, held in named.items() if len(held) > MOST]
        small = sorted(named.keys() - big)
        for segment in big:
            name = self._add(parent, self._path_rule(above, [segment]))
            self._by_path(name, _ranked([*named[segment], *shared]), depth + 1)
        self._by_segment(parent, above, small, {segment: [*named[segment], *shared] for segment in small})
        self._leaf(self._add(parent, ANY), shared)


def _segments(rule: Rule) -> list[str]:
    """The literal segments of a path after an empty first one: none when it may be any."""
    path = rule.match.path
    if path.kind is PathKind.REGEX or path.covers_all:
        return [""]
    return path.value.split("/")


def _union(tables: Iterable[HostTable]) -> list[Rule]:
    return _ranked([rule for table in tables for rule in table.rules])


def _ranked(rules: Iterable[Rule]) -> list[Rule]:
    return sorted({rule.rank: rule for rule in rules}.values(), key=lambda rule: rule.rank)


def _chunks(found: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """At most `_FEW` parts of about the same size."""
    size = max(1, ceil(len(found) / _FEW))
    for start in range(0, len(found), size):
        yield found[start : start + size]
