"""What one thing adds to a figure, measured in pairs, and whether that is more than the machine does by itself."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lbgen.bench.report import Spread

# Student's t for 99.9 % on both sides, by degrees of freedom: one of 1,000 equal pairs differs by chance.
_T = {
    1: 636.6, 2: 31.60, 3: 12.92, 4: 8.610, 5: 6.869, 6: 5.959, 7: 5.408, 8: 5.041, 9: 4.781, 10: 4.587, 11: 4.437,
    12: 4.318, 13: 4.221, 14: 4.140, 15: 4.073, 17: 3.965, 19: 3.883, 24: 3.745, 29: 3.659, 39: 3.558, 59: 3.463,
    119: 3.374,
}  # fmt: skip

LUCK = 0.02  # of a figure: so much an equal process may differ for all of its life, by where its memory lies


@dataclass(frozen=True, slots=True)
class Added:
    """By round: the figure of the whole less that of the part at the same time (`spread`). `deviation`: the standard
    deviation of a round, known from so many `degrees` of freedom. `floor`: what equal processes differ by."""

    spread: Spread
    deviation: float
    degrees: int
    floor: float = 0.0

    @staticmethod
    def of(differences: Mapping[str, Sequence[float]], whole: float = 0.0) -> dict[str, Added]:
        """By name what each thing adds, from its rounds; `whole` is the figure of the whole.

        The variance is pooled from all of them, since it is the machine's; that of the thing itself counts where it is
        greater."""
        squares = {name: sum((x - statistics.mean(found)) ** 2 for x in found) for name, found in differences.items()}
        degrees = sum(len(found) - 1 for found in differences.values())
        pooled = sum(squares.values()) / max(1, degrees)
        made = {}
        for name, found in differences.items():
            own = squares[name] / (len(found) - 1) if len(found) > 1 else 0.0
            deviation = math.sqrt(max(pooled, own)) if degrees else abs(found[0])  # one round shows nothing
            made[name] = Added(Spread(tuple(found)), deviation, max(1, degrees), LUCK * whole)
        return made

    @property
    def mean(self) -> float:
        """The mean of the rounds."""
        return statistics.mean(self.spread.rounds)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the mean is with a confidence of 99.9 %."""
        known = list(_T)
        t = _T[known[bisect_right(known, self.degrees) - 1]]
        half = self.floor + t * self.deviation / math.sqrt(len(self.spread.rounds))
        return self.mean - half, self.mean + half

    @property
    def measurable(self) -> bool:
        """Whether it shows: the interval has 0 outside."""
        low, high = self.interval
        return low > 0 or high < 0
