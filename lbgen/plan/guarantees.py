"""Clauses that no field asks for: each is kept to the letter, or left to the engine's own habit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lbgen.plan.features import Feature


class Guarantee(StrEnum):
    """The names of the field `guarantees`; each is also a field of `Guarantees`."""

    PATHS = "paths"  # request targets that could be read in two ways
    FRAMING = "framing"  # malformed requests, and TRACE and CONNECT
    CONNECTION_OPTIONS = "connection_options"  # fields that Connection names
    ANSWERS = "answers"  # status, body and headers of answers that the engine makes


MEANINGS = {
    Guarantee.PATHS: "request targets that could be read in two ways",
    Guarantee.FRAMING: "malformed requests, and the methods TRACE and CONNECT",
    Guarantee.CONNECTION_OPTIONS: "header fields that Connection names",
    Guarantee.ANSWERS: "status, body and headers of answers that the engine makes by itself",
}

# The features whose verdicts rest on a guarantee alone: a listener that leaves it to the engine does not use them.
_FEATURES = {
    Guarantee.PATHS: (Feature.PATHS_STRICT,),
    Guarantee.FRAMING: (Feature.FRAMING, Feature.MALFORMED),
    Guarantee.CONNECTION_OPTIONS: (Feature.CONNECTION_NOMINATED,),
    Guarantee.ANSWERS: (Feature.STATUSES, Feature.FAILURES),
}


@dataclass(frozen=True, slots=True)
class Guarantees:
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
        return frozenset(feature for each in self.left for feature in _FEATURES[each])


LEFT_TO_ENGINE = Guarantees(paths=False, framing=False, connection_options=False, answers=False)
