"""Compare the differences that a case found with those that the engine's verdicts declare."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lbgen.conformance.difference import Kind, kind_of
from lbgen.engines.api import AT_TIMES, EVERYWHERE, ROUTES, Level
from lbgen.plan.features import Feature

if TYPE_CHECKING:
    from lbgen.conformance.prepare import DeclaredDifference

# Word of `Verdict.differs`: regex of the sentence that reports it. "status N" and "header NAME" are made below.
_WORDS = {
    "another rule": r"pool \S+, expected \[|status \d+ by the proxy expected|status \d+ b.*, expected an answer of|"
    r"status \d+, expected \d+ \(|location |body b|to the endpoint: |answer: ",  # the other rule's edits
    "accepted": r"reached an endpoint: |(status \d+ by|an answer of) the proxy expected, an endpoint answered|"
    r"status 200, expected 40",
    "closed": r"(second request, .*|no answer): ((None )?no answer head \((closed|reset)\)|RST_STREAM)",
    "cut": r"answer \d+: the body does not end as its framing says|status \d+ b'', expected an answer of",
    "no http": r"no answer: status line ",
    "open": r"no answer and the connection stays open|.*(connection is (still )?open|connection stays open|timed out)",
    "text": r"body b|answer: (content-type|cache-control): ",
}


# What a verdict on no case of its own may excuse of a well-formed request whose endpoint is well.
USUAL = ("spelling", "header ", "text")


def feature_of(aspect: str) -> str:
    """`pool.backup.by_retry` -> `pool.backup`: the feature whose clause the aspect is a part of; "" = there is none."""
    name = aspect
    while name and name not in Feature._value2member_map_:
        name = name.rpartition(".")[0]
    return name


def is_known(word: str) -> bool:
    """Whether `word` is allowed in `Verdict.differs`."""
    word = word.removeprefix(AT_TIMES)
    free = r"status \d{3}|header [a-z0-9.-]+(: .+)?|text: .*"
    return word in (*_WORDS, *Kind, "spelling") or re.fullmatch(free, word) is not None


def matches(word: str, found: str) -> bool:
    """Whether a found difference is the one that `word` declares."""
    word = word.removeprefix(AT_TIMES)
    if word in set(Kind):
        return kind_of(found) == word
    found = re.sub(r"^request \d+ of \d+: ", "", found)
    if word.startswith("status "):
        return re.match(rf"({word}\b|a .*: {word[7:]}\b)", found) is not None
    if word.startswith("header "):
        name, colon, value = word[7:].partition(": ")
        what = re.escape(f": {value!r}") if colon else "( is missing|: )"
        return re.match(rf"(answer|to the endpoint): {re.escape(name)}{what}", found) is not None
    if word == "spelling":
        return _differ_in_spelling(found)
    if word.startswith("text: "):
        return word[6:] in found
    return re.match(_WORDS[word], found) is not None


def _differ_in_spelling(found: str) -> bool:
    """Whether two targets are the same but for the case of escapes, raw characters that are escaped, and `&` for `;` in
    the query."""
    targets = re.match(r"to the endpoint: target '(.*)', expected '(.*)'$", found)
    if targets is None:
        return False
    one, other = map(escape_target, targets.groups())
    path, mark, query = other.partition("?")
    return one in (other, f"{path}{mark}{query.replace(';', '&')}")


def escape_target(target: str) -> str:
    """`target` with escapes in upper case, and escapes for what RFC 3986 has no place for."""
    target = re.sub("%[0-9A-Fa-f]{2}", lambda escape: escape[0].upper(), target)
    return re.sub(r'["<>\\^`{|}]', lambda raw: f"%{ord(raw[0]):02X}", target)


def explained_by(
    aspects: Iterable[str], near: Iterable[DeclaredDifference], found: list[str], *, habits: bool = True
) -> tuple[DeclaredDifference, ...]:
    """The verdicts that declare what was found, for a case about `aspects`; empty when none does. A verdict that
    declares no difference explains only cases that name its whole feature, a habit not even these without `habits`.

    Raises NotShownError when a verdict declares a difference for one of the aspects and none was found.
    """
    wanted = set(aspects)
    features = {feature_of(aspect) for aspect in wanted}
    stating = [n for n in near if n.feature in features and any(aspect in wanted for aspect, _ in n.differs)]
    words = [word for n in stating for aspect, given in n.differs if aspect in wanted for word in given]
    if stating and not found and not all(word.startswith(AT_TIMES) for word in words):
        raise MissingDifferenceError(f"the verdict says {', '.join(words)}, which does not show: {stating[0].note}")
    if stating and found:
        return tuple(stating) if all(any(matches(word, one) for word in words) for one in found) else ()
    whole = (n for n in near if n.feature in wanted and not n.differs and (habits or n.level is not Level.HABIT))
    return tuple(whole) if found else ()


def besides_everywhere(
    near: Iterable[DeclaredDifference], found: Iterable[str], usual: tuple[str, ...] | None = None
) -> list[str]:
    """What was found but for differences that a verdict declares for every request (the part `FEATURE.everywhere`), of
    `usual` words alone if there are any."""
    everywhere = [word for n in near for part, given in n.differs if part == n.feature + EVERYWHERE for word in given]
    everywhere = [word for word in everywhere if usual is None or word.removeprefix(AT_TIMES).startswith(usual)]
    return [one for one in found if not any(matches(word, one) for word in everywhere)]


def explained_by_use(
    near: Iterable[DeclaredDifference], found: list[str], usual: tuple[str, ...] | None = None
) -> tuple[DeclaredDifference, ...]:
    """The verdicts on what a route uses (the part `FEATURE.routes`) that declare all of what was found together, by
    `usual` words alone if there are any."""
    words = [(n, word) for n in near for part, given in n.differs if part == n.feature + ROUTES for word in given]
    words = [(n, word) for n, word in words if usual is None or word.removeprefix(AT_TIMES).startswith(usual)]
    if not found or not all(any(matches(word, one) for _, word in words) for one in found):
        return ()
    return tuple({n.note: n for n, word in words if any(matches(word, one) for one in found)}.values())


class MissingDifferenceError(Exception):
    """A verdict declares a difference that the engine does not have."""
