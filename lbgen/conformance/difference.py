"""Differences that cases find: a sentence for people, and its kind for the judge of verdicts and of busy machines."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What is wrong. Words of `Verdict.differs` name kinds."""

    OTHER = "other"  # only the sentence says
    TIME = "time"  # it came earlier or later than the case says
    FAILED = "failed"  # the engine's own failure came, where an endpoint was there
    WHOLE = "whole"  # a body is complete that should have been cut


WAITED = (504, 408)  # statuses of an engine that waited for an endpoint or a client
# What a busy machine shows, too: such a case is tried again.
LATE = frozenset({Kind.TIME, Kind.FAILED, Kind.WHOLE})


class Difference(str):
    """One difference, as a sentence."""

    kind: Kind

    def __new__(cls, sentence: str, kind: Kind) -> Difference:
        made = super().__new__(cls, sentence)
        made.kind = kind
        return made

    def __getnewargs__(self) -> tuple[str, Kind]:  # type: ignore[override]  # a worker process sends it
        return str(self), self.kind


def kind_of(found: str) -> Kind:
    """The kind of a difference; a plain sentence has none of its own."""
    return found.kind if isinstance(found, Difference) else Kind.OTHER


def in_context(words: str, found: str) -> Difference:
    """The same difference with `words` before its sentence."""
    return Difference(f"{words}{found}", kind_of(found))


def late(sentence: str) -> Difference:
    """Something that came earlier or later than the case says."""
    return Difference(sentence, Kind.TIME)
