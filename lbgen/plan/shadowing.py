"""Rules that never serve, or only on some listeners, because an earlier rule takes all their requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from msgspec import Struct

from lbgen.plan.model import HostPattern, Match, Rule
from lbgen.plan.precedence import covering_hosts

_ANY = None  # no condition but the path
# Rules by one condition, or its subject where other operators may imply it, and by path.
_AtHost = dict["Hashable", dict["Hashable", "list[Rule]"]]


class ShadowedRule(Struct, frozen=True, eq=False):
    """`rule` never serves on `listeners`: `by` (one per listener) is tried before and takes everything."""

    rule: Rule
    by: dict[str, Rule]

    @property
    def twin(self) -> bool:
        """Whether the earlier rules have the same host and match."""
        return all(by.host == self.rule.host and is_same_match(by.match, self.rule.match) for by in self.by.values())


def is_same_match(one: Match, other: Match) -> bool:
    """Whether two matches are the same, the order of methods aside."""
    return one.path == other.path and _implied(one, other) and _implied(other, one)


def covers(earlier: Match, later: Match) -> bool:
    """Whether `earlier` matches every request that `later` matches. False where that is not certain."""
    return later.path.implies(earlier.path) and _implied(earlier, later)


def _implied(earlier: Match, later: Match) -> bool:
    return all(any(given.implies(asked) for given in later.conditions) for asked in earlier.conditions)


def find_shadowed(rules: Sequence[Rule], listeners: Callable[[Rule], Sequence[str]]) -> Iterator[ShadowedRule]:
    """Every rule of `rules` (in order of rank) that an earlier one covers on at least one of its listeners.

    Earlier rules are looked up by host, path and one condition, so the cost grows with the number of rules, not of
    pairs.
    """
    known: dict[HostPattern | None, _AtHost] = {}
    covering: dict[HostPattern | None, list[_AtHost]] = {}  # of a host: what is known of it, and of all that cover it
    for rule in rules:
        by: dict[str, Rule] = {}
        own = listeners(rule)
        at_hosts = covering.get(rule.host)
        if at_hosts is None:
            at_hosts = covering[rule.host] = [known.setdefault(host, {}) for host in covering_hosts(rule.host)]
        for earlier in _candidates(at_hosts, rule):
            theirs = listeners(earlier)
            if any(name not in by for name in theirs) and covers(earlier.match, rule.match):
                for name in theirs:
                    if name in own:
                        by.setdefault(name, earlier)
                if len(by) == len(own):
                    break
        if by:
            yield ShadowedRule(rule, by)
        if len(by) < len(own):
            _enter(at_hosts[0], rule)


def _enter(at_host: _AtHost, rule: Rule) -> None:
    """Index a rule under the keys by which rules that it may cover look it up."""
    keys: tuple[Hashable, ...] = (_ANY,)
    if rule.match.conditions:
        first = min(reversed(rule.match.conditions), key=lambda each: each.operator.is_wide)
        keys = (first, first.subject) if first.operator.is_wide else (first,)
    for key in keys:
        at_key = at_host.setdefault(key, {})
        for where in rule.match.path.index_keys():
            at_key.setdefault(where, []).append(rule)


def _candidates(at_hosts: list[_AtHost], rule: Rule) -> Iterator[Rule]:
    """All rules so far that may cover `rule`."""
    keys: list[Hashable] = [_ANY]
    for each in rule.match.conditions:
        keys += (each, each.subject) if each.operator.implies_others else (each,)
    paths = rule.match.path.search_keys()
    for at_host in at_hosts:
        tables = [at_host[key] for key in keys if key in at_host] if at_host else ()
        for path in paths if tables else ():
            for table in tables:
                if path in table:
                    yield from table[path]
