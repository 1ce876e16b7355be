"""The rules of one host -> nginx locations, each with the rules that its requests can still meet.

nginx finds a location by the decoded path, the contract compares paths as they are sent. Strict paths make decoding
unambiguous but for reserved characters: `/a:b` and `/a%3Ab` end in one location. Where a location holds such a
character its rules test the raw path as well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lbgen.plan.model import PathKind
from lbgen.plan.precedence import covering_prefixes, path_groups
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lbgen.plan.model import Rule
    from lbgen.plan.precedence import PathGroup

# Reserved characters that a strict path may hold both raw and escaped.
_TWOFOLD = frozenset("!$&'()*+,;=:@[]")


@record
class Candidate:
    """A rule and whether its path must be tested beside the location."""

    rule: Rule
    test_path: bool

    @property
    def unconditional(self) -> bool:
        return not self.test_path and self.rule.match.path_only


@record
class Place:
    """A location: `path` is decoded. A PREFIX place covers by segment. Candidates end at the first unconditional."""

    kind: PathKind
    path: str
    candidates: tuple[Candidate, ...]


def places(rules: Sequence[Rule], *, loose: bool = False, flat: bool = False) -> tuple[Place, ...]:
    """The locations for one host's rules: exact ones by path, then prefixes, shorter first. `loose`: a location gets
    requests of other paths too; `flat`: there is but one."""
    if flat:
        tried = sorted(rules, key=lambda rule: rule.rank)
        whole = _cut(Candidate(rule, test_path=not rule.match.path.covers_all) for rule in tried)
        return (Place(PathKind.PREFIX, "/", tuple(whole)),) if rules else ()
    groups = path_groups(rules)
    known = {group.path for group in groups if group.kind is PathKind.PREFIX and _writable(decoded(group.path))}
    by_path: dict[tuple[PathKind, str], list[PathGroup]] = {}
    tested = set()
    for group in groups:
        key = (group.kind, decoded(group.path))
        if not _writable(key[1]):
            # No location can be written for bytes that are no UTF-8: the nearest one around it tests the raw path.
            key = (PathKind.PREFIX, decoded(next((p for p in covering_prefixes(group.path) if p in known), "/")))
            tested.add(key)
        by_path.setdefault(key, []).append(group)
    found = []
    for key, own in by_path.items():
        if key not in tested and not loose and _TWOFOLD.isdisjoint(key[1]):
            # Then the raw path is known, and there is one group only.
            every = [Candidate(c.rule, c.test_path) for c in own[0].candidates]
        else:
            every = _merged([*own, *_around(key[1], by_path)], loose)
        found.append(Place(*key, tuple(_cut(every))))
    return tuple(sorted(found, key=lambda p: (p.kind is PathKind.PREFIX, p.path)))


@lru_cache(maxsize=65536)
def decoded(path: str) -> str:
    """A plan's path as nginx sees it; bytes that are no UTF-8 as lone surrogates."""
    return unquote(path, errors="surrogateescape") if "%" in path else path


def _around(path: str, by_path: dict[tuple[PathKind, str], list[PathGroup]]) -> Iterator[PathGroup]:
    for prefix in covering_prefixes(path):
        yield from by_path.get((PathKind.PREFIX, prefix), ())


def _merged(groups: Iterable[PathGroup], loose: bool) -> list[Candidate]:
    """All rules of groups that share a location or lie around it; every one that is not certain tests the raw path."""
    rules = {c.rule.rank: c.rule for group in groups for c in group.candidates}
    return [Candidate(rules[rank], _uncertain(rules[rank], loose)) for rank in sorted(rules)]


def _uncertain(rule: Rule, loose: bool) -> bool:
    """Whether a location for the rule's path also gets requests that are not the rule's."""
    if loose:
        return not rule.match.path.covers_all
    path = decoded(rule.match.path.value)
    return rule.match.path.kind is PathKind.REGEX or not _TWOFOLD.isdisjoint(path) or not _writable(path)


def _writable(path: str) -> bool:
    return path.isascii() or not any("\udc80" <= char <= "\udcff" for char in path)


def _cut(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    for candidate in candidates:
        yield candidate
        if candidate.unconditional:
            return
