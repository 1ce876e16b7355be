"""Clauses that no field asks for: each is kept to the letter, or left to the engine's own habit."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from lbgen.plan.features import Feature


class Guarantee(StrEnum):
    """The names of the field `guarantees`; each is also a field of `Guarantees`."""

    PATHS = "paths"  # request targets that could be read in two ways, those in absolute form among them
    FRAMING = "framing"  # malformed requests, and TRACE and CONNECT
    CONNECTION_OPTIONS = "connection_options"  # fields that Connection names
    ANSWERS = "answers"  # status, body and headers of answers that the engine makes

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features whose verdicts rest on it alone: a listener that leaves it to the engine does not use them."""
        return _FEATURES[self]


MEANINGS = {
    Guarantee.PATHS: "request targets that could be read in two ways, and those in absolute form",
    Guarantee.FRAMING: "malformed requests, and the methods TRACE and CONNECT",
    Guarantee.CONNECTION_OPTIONS: "header fields that Connection names",
    Guarantee.ANSWERS: "status, body and headers of answers that the engine makes by itself",
}

_FEATURES = {
    Guarantee.PATHS: (Feature.PATHS_STRICT,),
    Guarantee.FRAMING: (Feature.FRAMING, Feature.MALFORMED),
    Guarantee.CONNECTION_OPTIONS: (Feature.CONNECTION_NOMINATED,),
    Guarantee.ANSWERS: (Feature.STATUSES, Feature.FAILURES),
}


class Guarantees(Struct, frozen=True):
    """True: kept to the letter on this listener. False: left to the engine."""

    paths: bool = True
    framing: bool = True
    connection_options: bool = True
    answers: bool = True

    @property
    def left(self) -> tuple[Guarantee, ...]:
        """What is left to the engine."""
        return tuple(each for each in Guarantee if not getattr(self, each.value))

    @property
    def unused_features(self) -> frozenset[Feature]:
        """Features that the listener does not use, because what they say is left to the engine."""
        return frozenset(feature for each in self.left for feature in each.features)


# With `answers` left to the engine these statuses stay: a field of the topology asks for each of them.
ASKED_STATUSES = frozenset({403, 413, 414, 429, 431})


def is_loose_status(status: int | None, contract: int) -> bool:
    """Whether an answer of `status` will do where the contract says `contract` and `answers` is left to the engine: an
    error of the same class, and the very status where a field asks for it."""
    if status is None or contract in ASKED_STATUSES:
        return status == contract
    return status // 100 == contract // 100


LEFT_TO_ENGINE = Guarantees(paths=False, framing=False, connection_options=False, answers=False)
