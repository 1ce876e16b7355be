"""Prefix trees of routes: the time to find a route does not grow with the number of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter

from lbgen.plan.model import Rule
from lbgen.plan.path_conditions import PrefixPath, covering_prefixes

_MIN_RULES = 200  # rules; a shorter plain list is as fast
_LEAF = 48  # rules; a key costs Envoy up to 50 KB of memory, a rule in a list about 0.1 us per request
_GROWTH = 4  # how many times a tree may hold each rule, on average
_BY_RANK = attrgetter("rank")


def build_prefix_tree(rules: Sequence[Rule]) -> dict[str, list[Rule]] | None:
    """Lists of rules by the prefix of a target; None when the plain list is as good.

    Guarantee: for the longest key that is a prefix of a target (path and query), the first rule of its list that
    matches is the first rule of `rules` that matches; when none of the list matches, none of `rules` does. The rules of
    a list still need their path match.
    """
    if len(rules) < _MIN_RULES:
        return None
    starts: dict[str, list[Rule]] = {}
    prefixes: dict[str, list[Rule]] = {}
    open_ended: dict[str, list[Rule]] = {}
    for rule in rules:
        start = _start(rule)
        starts.setdefault(start, []).append(rule)
        if start != rule.match.path.value:
            open_ended.setdefault(start, []).append(rule)
        elif isinstance(rule.match.path, PrefixPath):
            prefixes.setdefault(start, []).append(rule)
    left = _GROWTH * len(rules)
    found: dict[str, list[Rule]] = {}
    for key, members in _split(starts):
        own = sorted((rule for start in members for rule in starts[start]), key=_BY_RANK)
        wider = [prefixes[path] for path in _covering_prefixes(key) if path in prefixes and path not in members]
        opened = [open_ended[s] for s in _beginnings(key) if s in open_ended and s not in members] if open_ended else []
        found[key] = list(_until_catch_all(key, merge(own, *wider, *opened, key=_BY_RANK)))
        left -= len(found[key])
        if left < 0:
            return None
    return found


def _start(rule: Rule) -> str:
    """The longest known prefix of all targets that the rule matches. Hex digits of an escape may be of either case."""
    return rule.match.path.start.partition("%")[0] or "/"


def _split(starts: Mapping[str, Sequence[Rule]]) -> Iterator[tuple[str, frozenset[str]]]:
    """Keys, each with the starts that have no longer key as a prefix."""
    waiting = [("/", sorted(starts))]
    while waiting:
        key, group = waiting.pop()
        if sum(len(starts[start]) for start in group) <= _LEAF:
            yield key, frozenset(group)
            continue
        common = _common(group[0], group[-1])
        yield key, frozenset(group[:1]) & {common}
        branch = itemgetter(slice(len(common) + 1))
        longer = (start for start in group if start != common)
        waiting += [(text, list(part)) for text, part in groupby(longer, branch)]


def _common(one: str, other: str) -> str:
    """The common prefix."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return one[:at]
    return min(one, other, key=len)


def _covering_prefixes(key: str) -> list[str]:
    """The prefixes that match every target which begins with `key`."""
    return covering_prefixes(key.rpartition("/")[0])


def _beginnings(key: str) -> Iterator[str]:
    return (key[:end] for end in range(1, len(key) + 1))


def _until_catch_all(key: str, rules: Iterator[Rule]) -> Iterator[Rule]:
    """`rules` up to the first that matches every target which begins with `key`."""
    above = frozenset(_covering_prefixes(key))
    for rule in rules:
        yield rule
        path = rule.match.path
        if rule.match.path_only and isinstance(path, PrefixPath) and path.value in above and "%" not in path.value:
            return
