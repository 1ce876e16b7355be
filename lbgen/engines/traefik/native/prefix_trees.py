"""Texts in groups by how they begin, so that few are compared with each request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lbgen.engines.traefik.matching import decode_path
from lbgen.plan.model import PathKind
from lbgen.plan.regex import literal_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lbgen.plan.model import HostTable, Rule

MOST = 50  # routers that a parent may have before they are put into groups
_FEW = 4  # as many need no group of their own


@dataclass(frozen=True, slots=True)
class Group:
    """What begins with `prefix`; `parent` is the group or router above, "" = none."""

    name: str
    prefix: str
    parent: str


@dataclass(slots=True)
class Groups:
    """The groups, outer ones first, and the parents of each member by its number."""

    name: str  # what the names of groups begin with
    suffix: str  # and end with
    nodes: list[Group] = field(default_factory=list)
    members: dict[int, list[str]] = field(default_factory=dict)

    def parents(self, number: int) -> list[str]:
        """The parents of a member; none = it is at the top."""
        return [name for name in self.members[number] if name]


@dataclass(frozen=True, slots=True)
class _Member:
    """What has `text`, or begins with it; with kind None everything."""

    number: int
    text: str
    kind: PathKind | None

    def may_begin_with(self, prefix: str) -> bool:
        """Whether something that begins with `prefix` could belong to it."""
        if self.kind is None or self.text.startswith(prefix):
            return True
        if self.kind is PathKind.EXACT:
            return False
        if self.kind is PathKind.REGEX:
            return prefix.startswith(self.text)
        return prefix.startswith(self.text.rstrip("/") + "/")


def group_paths(rules: Iterable[Rule], parent: str, suffix: str) -> Groups:
    """The rules of a host, by rank, below the router `parent` (without the suffix of its name)."""
    found = Groups(parent, suffix)
    _split(found, [_Member(rule.rank, *_text(rule)) for rule in rules], "", parent + suffix)
    return found


def _text(rule: Rule) -> tuple[str, PathKind]:
    path = rule.match.path
    return literal_start(path.value) if path.kind is PathKind.REGEX else decode_path(path.value), path.kind


def group_hosts(tables: Sequence[HostTable], name: str, suffix: str) -> Groups:
    """The hosts of a listener, by their places. Wildcards and the table of every host belong to all groups, since a
    group answers whatever begins like it."""
    found = Groups(name, suffix)
    members = []
    for place, table in enumerate(tables):
        if table.host is None or table.host.wildcard:
            members.append(_Member(place, "", None))
        else:
            members.append(_Member(place, table.host.name, PathKind.EXACT))
    _split(found, members, "", "")
    return found


def _split(found: Groups, members: Sequence[_Member], prefix: str, parent: str) -> None:
    """Put the members, which all may begin with `prefix`, below `parent`, or below groups there."""
    grouped: set[int] = set()
    for bucket in _buckets(members, prefix) if len(members) > MOST else ():
        if len(bucket) <= _FEW:
            continue
        start = _common_start(bucket)
        group = Group(f"{found.name}{start}{found.suffix}", start, parent)
        found.nodes.append(group)
        grouped.update(member.number for member in bucket)
        _split(found, [member for member in members if member.may_begin_with(start)], start, group.name)
    for member in members:
        if member.number not in grouped:
            found.members.setdefault(member.number, []).append(parent)


def _buckets(members: Sequence[_Member], prefix: str) -> list[list[_Member]]:
    """The members whose texts go on after `prefix`, by how; never one for all of them."""
    longer = [member for member in members if len(member.text) > len(prefix) and member.text.startswith(prefix)]
    while longer:
        buckets: dict[str, list[_Member]] = {}
        for member in longer:
            buckets.setdefault(member.text[len(prefix)], []).append(member)
        if len(buckets) > 1:
            return list(buckets.values())
        prefix = _common_start(longer)
        longer = [member for member in longer if len(member.text) > len(prefix)]
    return []


def _common_start(members: Sequence[_Member]) -> str:
    """What all their texts begin with."""
    first, last = min(member.text for member in members), max(member.text for member in members)
    return next((first[:place] for place, char in enumerate(first) if last[place : place + 1] != char), first)
