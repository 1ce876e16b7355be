"""A tree of routers above many rules: Traefik tries the routers of one parent one after the other.

A group is a router without rules of its own. Groups below one parent part its requests by host or by the first segment
of the path that differs, and each has every rule that one of its requests can meet, so that priorities still decide.
The rule of a group tests how its hosts or segments begin, which is cheap; the last group takes the rest.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from lbgen.engines.traefik.conditions import ANY
from lbgen.engines.traefik.matching import build_host, call, quote_regex
from lbgen.plan.model import PathKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lbgen.plan.model import HostPattern, HostTable, Rule


_T = TypeVar("_T")
_RANK = attrgetter("rank")

MOST = 50  # rules below one router before there are groups
FIRST = 1_000_000  # priority of the first group
_FEW = 12  # groups below one router where they are of the same size
_MOST_KEYS, _LEAST_KEYS = 16, 6  # hosts or segments below one group; the least is an average


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
            self._by_path(root, rules, "", 1)
        else:
            self._by_host(tables)

    def _add(self, parent: str, rule: str) -> str:
        name = f"{self._root}.{len(self.groups) + 1}"
        self.groups.append(Group(name, parent, rule, FIRST - len(self.groups)))
        return name

    def _leaf(self, parent: str, rules: Iterable[Rule]) -> None:
        self.leaves.append(parent)
        for rule in rules:
            self.parents.setdefault(rule.rank, []).append(parent)

    def _by_host(self, tables: Sequence[HostTable]) -> None:
        """Part requests by host."""
        names = {table.host.name: table for table in tables if table.host is not None and _is_name(table.host)}
        others = [table for table in tables if table.host is None or not _is_name(table.host)]
        rest = _union(others)
        if names and len(rest) <= _FEW:
            # Every group has these, so it does not matter in which one a request to another host ends up.
            held = {name: [*table.rules, *rest] for name, table in names.items()}
            self._divide(self._root, _Keys(held), _host_begins, self._below_host)
            return
        wild = [table for table in others if table.host is not None and table.host.wildcard]
        self._by_whole_host(self._root, [*names.values()], "^")
        for table in others:
            if table.host is not None and not table.host.wildcard:
                self._by_whole_host(self._root, [table], "^")
        self._by_whole_host(self._root, wild, r"^.+\.")
        self._by_path(self._add(self._root, ANY), tables[-1].rules, "", 1)

    def _below_host(self, parent: str, _: str, rules: Sequence[Rule]) -> None:
        self._by_path(parent, rules, "", 1)

    def _by_whole_host(self, parent: str, tables: Sequence[HostTable], start: str, *, all_here: bool = False) -> None:
        """Part requests by host, narrow to wide, where a group must have no others; `all_here`: nor has `parent`."""
        chunks = [*_chunks(tables)]
        for chunk in chunks:
            hosts = "|".join(quote_regex(table.host.name) for table in chunk if table.host is not None)
            rule = call("HostRegexp", rf"{start}(?:{hosts})\.?$") if len(chunk) > 1 else build_host(chunk[0].host)[0]
            name = self._add(parent, ANY if all_here and chunk is chunks[-1] else rule)
            rules = _union(chunk)
            if len(chunk) == 1:
                self._by_path(name, rules, "", 1)
            elif len(chunk) <= _MOST_KEYS and len(rules) <= MOST:
                self._leaf(name, rules)
            else:
                self._by_whole_host(name, chunk, start, all_here=True)

    def _by_path(self, parent: str, rules: Sequence[Rule], above: str, depth: int) -> None:
        """Part requests by the segment of the path at `depth`, 1 = the first; `above` is the path until there."""
        named: dict[str, list[Rule]] = {}
        shared: list[Rule] = []
        for rule in rules:
            segments = _segments(rule)
            (named.setdefault(self._spell(segments[depth]), []) if len(segments) > depth else shared).append(rule)
        if len(rules) <= MOST or not named:
            self._leaf(parent, rules)
            return

        def condition(keys: _Keys, start: int, end: int) -> str:
            return _path_begins(f"{above}/", keys.beginnings(start, end))

        def below(name: str, segment: str, rules: Sequence[Rule]) -> None:
            self._by_path(name, rules, f"{above}/{segment}", depth + 1)

        self._divide(parent, _Keys(named, shared), condition, below)

    def _divide(
        self,
        parent: str,
        keys: _Keys,
        condition: Callable[[_Keys, int, int], str],
        below: Callable[[str, str, Sequence[Rule]], None],
        start: int = 0,
        end: int | None = None,
    ) -> None:
        """Part the requests of `parent` by the keys from `start` on, before `end`; `below` parts those of one key."""
        end = len(keys.texts) if end is None else end
        for first, last in keys.chunks(start, end):
            if last - first == end - start:
                name = parent
            else:
                name = self._add(parent, ANY if last == end else condition(keys, first, last))
            if last - first == 1:
                below(name, keys.texts[first], keys.rules(first, last))
            elif last - first > _MOST_KEYS or len(rules := keys.rules(first, last)) > MOST + len(keys.shared):
                self._divide(name, keys, condition, below, first, last)
            else:
                self._leaf(name, rules)


class _Keys:
    """Hosts or segments in order, and the rules of each; those `shared` are of all."""

    def __init__(self, held: Mapping[str, Sequence[Rule]], shared: Sequence[Rule] = ()) -> None:
        self.texts = sorted(held)
        self.shared = shared
        self._held = held
        self._common = [0, *(_count_common(one, other) for one, other in pairwise(self.texts))]

    def rules(self, start: int, end: int) -> list[Rule]:
        """The rules of some keys, by rank."""
        held = [rule for text in self.texts[start:end] for rule in self._held[text]]
        return _ranked([*held, *self.shared])

    def chunks(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Parts of about the same size, apart where neighbours have the shortest beginning in common."""
        many = end - start > _MOST_KEYS  # else they have many rules, so that each is a part of its own
        size = max((end - start) // _FEW, _LEAST_KEYS) if many else 1
        while end - start > size + size // 2:
            about = start + size
            places = range(start + (size + 1) // 2, about + size // 2 + 1)
            _, _, place = min([(self._common[at], abs(at - about), at) for at in places])
            yield start, place
            start = place
        yield start, end

    def beginnings(self, start: int, end: int) -> list[tuple[str, bool]]:
        """What the keys from `start` on, before `end`, begin with and none behind them does; True for a whole key, with
        which one behind it begins."""
        found: dict[tuple[str, bool], None] = {}
        common = self._common[end]
        for at in range(end - 1, start - 1, -1):
            text = self.texts[at]
            found[text[: common + 1], len(text) == common] = None
            common = min(common, self._common[at])
        return [*found][::-1]


def _count_common(one: str, other: str) -> int:
    """How many letters both begin with."""
    for at, (letter, same) in enumerate(zip(one, other, strict=False)):
        if letter != same:
            return at
    return min(len(one), len(other))


def _host_begins(keys: _Keys, start: int, end: int) -> str:
    found = keys.beginnings(start, end)
    shared = found[0][0][: _count_common(found[0][0], found[-1][0])]
    texts = [quote_regex(text[len(shared) :]) + (r"\.?$" if whole else "") for text, whole in found]
    return call("HostRegexp", f"^{quote_regex(shared)}" + (texts[0] if len(texts) == 1 else f"(?:{'|'.join(texts)})"))


def _path_begins(above: str, beginnings: Iterable[tuple[str, bool]]) -> str:
    conditions = []
    for text, whole in beginnings:
        if whole:
            conditions.append(call("Path", above + text))
        conditions.append(call("PathPrefix", f"{above}{text}/" if whole else above + text))
    return " || ".join(conditions)


def _is_name(host: HostPattern) -> bool:
    """Whether a pattern is a host name; Traefik's matchers see an address of IPv6 with brackets or without."""
    return not host.wildcard and ":" not in host.name


def _segments(rule: Rule) -> list[str]:
    """The literal segments of a path after an empty first one: none when it may be any."""
    path = rule.match.path
    if path.kind is PathKind.REGEX or path.covers_all:
        return [""]
    return path.value.split("/")


def _union(tables: Iterable[HostTable]) -> list[Rule]:
    return _ranked([rule for table in tables for rule in table.rules])


def _ranked(rules: Iterable[Rule]) -> list[Rule]:
    return sorted({rule.rank: rule for rule in rules}.values(), key=_RANK)


def _chunks(found: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """At most `_FEW` parts of about the same size."""
    size = max(1, ceil(len(found) / _FEW))
    for start in range(0, len(found), size):
        yield found[start : start + size]
