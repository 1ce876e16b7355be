"""Compare the differences that a case found with those that the engine's verdicts declare."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.conformance.difference import Difference, Kind
from lbgen.engines.api import AT_TIMES, EVERYWHERE, ROUTES, Level
from lbgen.plan.features import all_features

if TYPE_CHECKING:
    from lbgen.conformance.prepare import DeclaredDifference

# Words that are about more than one kind.
_ANOTHER_RULE, _TEXT, _SPELLING = "another rule", "text", "spelling"
_OF_RULES = (Kind.POOL, Kind.STATUS, Kind.BODY, Kind.HEADER, Kind.TARGET, Kind.METHOD)  # its edits, too
_OF_TEXTS = ("content-type", "cache-control")
_WORD = re.compile(
    rf"({AT_TIMES})?(?:({_ANOTHER_RULE}|{_TEXT}|{_SPELLING})|({'|'.join(Kind)})(?: ([^ :]+))?(?:: (.+))?)"
)
# What a verdict on no case of its own may excuse of a well-formed request whose endpoint is well.
USUAL = frozenset({_SPELLING, _TEXT, Kind.HEADER})


class Word(Struct, frozen=True):
    """A word of `Verdict.differs`: `[at times: ]KIND[ NAME][: VALUE]`; NAME is a status, or the record's `name`, where
    it may end with `*`; VALUE is the record's `got`."""

    text: str
    kind: str
    name: str = ""
    value: str = ""
    at_times: bool = False


@cache
def word(text: str) -> Word:
    """Parse a word; ValueError when there is none like that."""
    found = _WORD.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no word of Verdict.differs")
    sometimes, several, kind, name, value = found.groups()
    return Word(text, several or kind, name or "", value or "", sometimes is not None)


def _words(near: DeclaredDifference, *parts: str) -> list[Word]:
    return [word(text) for part, given in near.differs if part in parts for text in given]


def matches(of: Word, found: Difference) -> bool:
    """Whether a found difference is the one that a word declares."""
    if of.kind == _SPELLING:
        return found.kind is Kind.TARGET and _is_spelled(str(found.got), str(found.expected))
    if of.kind == _TEXT:
        texts = found.place == "answer" and found.name in _OF_TEXTS
        return found.kind is Kind.BODY or (found.kind is Kind.HEADER and texts)
    if of.kind == _ANOTHER_RULE:
        return found.kind in _OF_RULES
    if of.kind == Kind.ACCEPTED and found.kind is Kind.STATUS:
        return found.got == 200 and str(found.expected).startswith("40")
    name = str(found.got) if found.kind is Kind.STATUS else found.name
    return found.kind == of.kind and fnmatchcase(name, of.name or "*") and (not of.value or str(found.got) == of.value)


def _is_spelled(got: str, expected: str) -> bool:
    """Whether two targets are the same but for the case of escapes, raw characters that are escaped, and `&` for `;` in
    the query."""
    one, other = escape_target(got), escape_target(expected)
    path, mark, query = other.partition("?")
    return one in (other, f"{path}{mark}{query.replace(';', '&')}")


def escape_target(target: str) -> str:
    """`target` with escapes in upper case, and escapes for what RFC 3986 has no place for."""
    target = re.sub("%[0-9A-Fa-f]{2}", lambda escape: escape[0].upper(), target)
    return re.sub(r'["<>\\^`{|}]', lambda raw: f"%{ord(raw[0]):02X}", target)


def feature_of(aspect: str) -> str:
    """`pool.backup.by_retry` -> `pool.backup`: the feature whose clause the aspect is a part of; "" = there is none."""
    name = aspect
    while name and name not in all_features():
        name = name.rpartition(".")[0]
    return name


def explained_by(
    aspects: Iterable[str], near: Iterable[DeclaredDifference], found: list[Difference], *, habits: bool = True
) -> tuple[DeclaredDifference, ...]:
    """The verdicts that declare what was found, for a case about `aspects`; empty when none does. A verdict that
    declares no difference explains only cases that name its whole feature, a habit not even these without `habits`.

    Raises MissingDifferenceError when a verdict declares a difference for one of the aspects and none was found.
    """
    wanted = set(aspects)
    features = {feature_of(aspect) for aspect in wanted}
    stating = [n for n in near if n.feature in features and any(aspect in wanted for aspect, _ in n.differs)]
    words = [each for n in stating for each in _words(n, *wanted)]
    if stating and not found and not all(each.at_times for each in words):
        said = ", ".join(each.text for each in words)
        raise MissingDifferenceError(f"the verdict says {said}, which does not show: {stating[0].note}")
    if stating and found:
        return tuple(stating) if all(any(matches(each, one) for each in words) for one in found) else ()
    whole = (n for n in near if n.feature in wanted and not n.differs and (habits or n.level is not Level.HABIT))
    return tuple(whole) if found else ()


def besides_everywhere(
    near: Iterable[DeclaredDifference], found: Iterable[Difference], usual: frozenset[str] | None = None
) -> list[Difference]:
    """What was found but for differences that a verdict declares for every request (the part `FEATURE.everywhere`), of
    `usual` kinds alone if there are any."""
    words = [each for n in near for each in _words(n, n.feature + EVERYWHERE) if usual is None or each.kind in usual]
    return [one for one in found if not any(matches(each, one) for each in words)]


def explained_by_use(
    near: Iterable[DeclaredDifference], found: list[Difference], usual: frozenset[str] | None = None
) -> tuple[DeclaredDifference, ...]:
    """The verdicts on what a route uses (the part `FEATURE.routes`) that declare all of what was found together, by
    `usual` kinds alone if there are any."""
    words = [(n, each) for n in near for each in _words(n, n.feature + ROUTES) if usual is None or each.kind in usual]
    if not found or not all(any(matches(each, one) for _, each in words) for one in found):
        return ()
    return tuple({n.note: n for n, each in words if any(matches(each, one) for one in found)}.values())


class MissingDifferenceError(Exception):
    """A verdict declares a difference that the engine does not have."""
