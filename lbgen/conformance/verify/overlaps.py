"""Pairs of rules that one request may match, found by host and path without trying every pair."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from heapq import merge
from typing import TYPE_CHECKING

from lbgen.conformance.corpus import matching_draft
from lbgen.plan.path_conditions import places, start_lengths
from lbgen.plan.paths import path_to_match
from lbgen.plan.policy import Paths
from lbgen.plan.precedence import covering_hosts, group

if TYPE_CHECKING:
    from lbgen.plan.model import Rule

_STRICT = Paths()


def overlaps(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Pairs of rules whose hosts overlap, and of which one covers the example path of the other; in the order of
    `itertools.combinations(rules, 2)`. Rules of a pattern without an example are in no pair."""
    paths = [None if (hit := matching_draft(rule)) is None else hit.path for rule in rules]
    starts = start_lengths(rule.match.path for rule in rules)
    index = group(
        (key, at)
        for at, (rule, path) in enumerate(zip(rules, paths, strict=True))
        if path is not None
        for host in _hosts(rule)
        for key in ((*host, rule.match.path.place), *((*host, ("at", each)) for each in _covers(path, starts)))
    )
    for at, (rule, path) in enumerate(zip(rules, paths, strict=True)):
        if path is None:
            continue
        texts: list[Hashable] = [("at", rule.match.path.place), *_covers(path, starts)]
        hosts: list[tuple[Hashable, ...]] = [
            *(("of", host) for host in covering_hosts(rule.host)),
            ("below", rule.host),
        ]
        found = (index.get((*host, text), ()) for host in hosts for text in texts)
        last = at
        for other in merge(*(each[bisect_right(each, at) :] for each in found)):
            if other != last:
                yield rule, rules[other]
            last = other


def _hosts(rule: Rule) -> Iterator[tuple[Hashable, ...]]:
    """Where rules of the same host, of narrower ones and of wider ones look for this one."""
    yield "of", rule.host
    yield from (("below", host) for host in covering_hosts(rule.host) if host != rule.host)


def _covers(path: str, starts: Sequence[int]) -> Iterator[Hashable]:
    """What may cover `path`."""
    return places(path_to_match(path, _STRICT), path, starts)
