"""The locations of one host, each with the rules that can match its requests.

nginx selects a location by the decoded path, while rules compare raw paths. With strict paths decoding is unambiguous
except for reserved characters: `/a:b` and `/a%3Ab` share a location. The rules of such a location test the raw path as
well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec import Struct

from lbgen.plan.path_conditions import Path, PrefixPath, covering_prefixes
from lbgen.plan.precedence import Candidate, path_groups, until_unconditional

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lbgen.plan.model import Rule
    from lbgen.plan.precedence import PathGroup

# Reserved characters, which a strict path may contain both raw and escaped.
_RAW_OR_ESCAPED = frozenset("!$&'()*+,;=:@[]")


class PathLocation(Struct, frozen=True, eq=False):
    """A location with its decoded path; PREFIX matches by segment. Candidates end at the first unconditional one."""

    kind: type[Path]
    path: str
    candidates: tuple[Candidate, ...]


def path_locations(
    rules: Sequence[Rule], *, test_raw_paths: bool = False, single: bool = False
) -> tuple[PathLocation, ...]:
    """The locations of one host's rules: exact ones by path, then prefixes, shorter first. With `test_raw_paths` every
    rule tests the raw path, with `single` in one location for all paths."""
    if single:
        return (PathLocation(PrefixPath, "/", raw_candidates(rules)),) if rules else ()
    groups = [(group, decode_path(group.path)) for group in path_groups(rules)]
    known = {group.path for group, path in groups if group.kind is PrefixPath and _writable(path)}
    by_path: dict[tuple[type[Path], str], list[PathGroup]] = {}
    tested = set()
    for group, path in groups:
        key = (group.kind, path)
        if not _writable(path):
            # nginx.conf cannot hold bytes that are no UTF-8: the nearest prefix location tests the raw path.
            key = (PrefixPath, decode_path(next((p for p in covering_prefixes(group.path) if p in known), "/")))
            tested.add(key)
        by_path.setdefault(key, []).append(group)
    locations = []
    for key, own in by_path.items():
        if key not in tested and not test_raw_paths and _RAW_OR_ESCAPED.isdisjoint(key[1]):
            # The decoded path has one raw form, hence one group.
            candidates = own[0].candidates
        else:
            candidates = tuple(until_unconditional(_merged([*own, *_around(key[1], by_path)], test_raw_paths)))
        locations.append(PathLocation(*key, candidates))
    return tuple(sorted(locations, key=lambda p: (p.kind is PrefixPath, p.path)))


def raw_candidates(rules: Iterable[Rule]) -> tuple[Candidate, ...]:
    """The rules in their order, each of which tests the raw path."""
    by_rank = sorted(rules, key=lambda rule: rule.rank)
    return tuple(until_unconditional(Candidate(rule, test_path=not rule.match.path.covers_all) for rule in by_rank))


@lru_cache(maxsize=65536)
def decode_path(path: str) -> str:
    """A path as nginx decodes it, with bytes that are no UTF-8 as lone surrogates."""
    return unquote(path, errors="surrogateescape") if "%" in path else path


def _around(path: str, by_path: dict[tuple[type[Path], str], list[PathGroup]]) -> Iterator[PathGroup]:
    for prefix in covering_prefixes(path):
        yield from by_path.get((PrefixPath, prefix), ())


def _merged(groups: Iterable[PathGroup], test_raw_paths: bool) -> list[Candidate]:
    """The rules of groups that share a location or contain it; ambiguous ones test the raw path."""
    rules = {c.rule.rank: c.rule for group in groups for c in group.candidates}
    return [Candidate(rules[rank], _is_ambiguous(rules[rank], test_raw_paths)) for rank in sorted(rules)]


def _is_ambiguous(rule: Rule, test_raw_paths: bool) -> bool:
    """Whether the location of the rule's path also gets requests that the rule does not match."""
    if test_raw_paths:
        return not rule.match.path.covers_all
    path = decode_path(rule.match.path.value)
    return not rule.match.path.is_text or not _RAW_OR_ESCAPED.isdisjoint(path) or not _writable(path)


def _writable(path: str) -> bool:
    return path.isascii() or not any("\udc80" <= char <= "\udcff" for char in path)
