"""Rules that never serve, or only on some listeners, because an earlier rule takes all their requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from msgspec import Struct

from lbgen.plan.model import HostPattern, Match, NamedMatch, PathKind, PathMatch, Rule, ValueKind, ValueMatch
from lbgen.plan.precedence import covering_hosts, covering_prefixes
from lbgen.plan.regex import literal_start, matches_whole

_ANY = (None, True)  # no condition but the path
# Rules by one condition with whether any method will do, and by path; a prefix stands for itself.
_AtHost = dict["Hashable", dict["Hashable", "list[Rule]"]]
_PRESENT = ValueMatch(ValueKind.PRESENT)
_ANYTHING = frozenset({".*", "/.*", "^.*", ".*$", "^.*$", "^/.*", "/.*$", "^/.*$"})


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
    return _canonical(one) == _canonical(other)


def _canonical(match: Match) -> Hashable:
    return (match.path, frozenset(match.methods), match.headers, match.query, match.cookies)


def covers(earlier: Match, later: Match) -> bool:
    """Whether `earlier` matches every request that `later` matches. False where that is not certain."""
    return (
        (not earlier.methods or (bool(later.methods) and set(later.methods) <= set(earlier.methods)))
        and covers_path(earlier.path, later.path)
        and _implied(earlier.headers, later.headers)
        and _implied(earlier.query, later.query)
        and _implied(earlier.cookies, later.cookies)
    )


def covers_path(earlier: PathMatch, later: PathMatch) -> bool:
    """As `covers`, for paths."""
    if earlier == later or earlier.covers_all:
        return True
    match earlier.kind, later.kind:
        case PathKind.REGEX, PathKind.EXACT if "%" not in later.value:  # a client may write the escape's other case
            return matches_whole(earlier.value, later.value)
        case PathKind.REGEX, _:
            return earlier.value in _ANYTHING
        case PathKind.PREFIX, PathKind.REGEX:
            return literal_start(later.value).startswith(earlier.value + "/")
        case PathKind.PREFIX, _:
            return earlier.value in covering_prefixes(later.value)
        case _:
            return False


def _implied(earlier: Sequence[NamedMatch], later: Sequence[NamedMatch]) -> bool:
    given = {condition.name: condition for condition in later}
    return all(
        (asked := given.get(condition.name)) is not None and (asked == condition or _wider(condition, asked))
        for condition in earlier
    )


def _wider(earlier: NamedMatch, later: NamedMatch) -> bool:
    if later.value.kind is not ValueKind.EXACT:
        return False
    if earlier.value.kind is ValueKind.PRESENT:
        return True
    wire = later.value.value.encode().decode("latin-1")
    return earlier.value.kind is ValueKind.REGEX and matches_whole(earlier.value.value, wire)


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
    match, path = rule.match, rule.match.path
    paths: tuple[Hashable, ...] = (path.value,) if path.kind is PathKind.PREFIX else ((path.kind, path.value),)
    if path.kind is PathKind.REGEX:
        paths = ("anything",) if path.value in _ANYTHING else (*paths, ("starts", literal_start(path.value)))
    keys: tuple[Hashable, ...] = (_ANY,)
    if not match.path_only:
        named = min(_named(match), key=lambda pair: pair[1].value.kind is not ValueKind.EXACT, default=None)
        keys = ((named, not match.methods),)
        if named is not None and named[1].value.kind is ValueKind.REGEX:
            keys = (*keys, ((named[0], named[1].name, ValueKind.REGEX), not match.methods))
    for key in keys:
        at_key = at_host.setdefault(key, {})
        for where in paths:
            at_key.setdefault(where, []).append(rule)


def _candidates(at_hosts: list[_AtHost], rule: Rule) -> Iterator[Rule]:
    """All rules so far that may cover `rule`."""
    match = rule.match
    keys: list[Hashable] = [_ANY]
    if not match.path_only:
        any_method = (True, False) if match.methods else (True,)
        keys = [(condition, any_) for condition in (None, *_weaker(match)) for any_ in any_method]
    paths = _covering_paths(match.path)
    for at_host in at_hosts:
        tables = [at_host[key] for key in keys if key in at_host] if at_host else ()
        for path in paths if tables else ():
            for table in tables:
                if path in table:
                    yield from table[path]


def _covering_paths(path: PathMatch) -> list[Hashable]:
    found: list[Hashable] = ["anything"]
    reached = path.value
    if path.kind is not PathKind.PREFIX:
        found.append((path.kind, path.value))
    if path.kind is PathKind.EXACT:
        found += [("starts", path.value[:end]) for end in range(len(path.value) + 1)]
    elif path.kind is PathKind.REGEX:
        reached = literal_start(path.value).rpartition("/")[0]
    return found + covering_prefixes(reached)


def _named(match: Match) -> Iterator[tuple[int, NamedMatch]]:
    for place, group in enumerate((match.headers, match.query, match.cookies)):
        for condition in group:
            yield place, condition


def _weaker(match: Match) -> Iterator[Hashable]:
    for place, condition in _named(match):
        yield place, condition
        if condition.value.kind is ValueKind.EXACT:
            yield place, NamedMatch(condition.name, _PRESENT)
            yield place, condition.name, ValueKind.REGEX
