"""What one thing adds to a figure, measured in pairs, and whether that is more than the machine does by itself."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from lbgen.bench.report import Spread

# Student's t for 99.9 % on both sides, by degrees of freedom: one of 1,000 equal pairs differs by chance.
_T = {
    1: 636.6, 2: 31.60, 3: 12.92, 4: 8.610, 5: 6.869, 6: 5.959, 7: 5.408, 8: 5.041, 9: 4.781, 10: 4.587, 11: 4.437,
    12: 4.318, 13: 4.221, 14: 4.140, 15: 4.073, 17: 3.965, 19: 3.883, 24: 3.745, 29: 3.659, 39: 3.558, 59: 3.463,
    119: 3.374,
}  # fmt: skip
_VARIANCE = 1.5  # of one figure less the mean of two others, in units of that of one figure


@dataclass(frozen=True, slots=True)
class Added:
    """By round: the mean of two figures of the whole less that of the part (`spread`), and how far the two figures of
    the whole are apart (`pairs`)."""

    spread: Spread
    pairs: tuple[float, ...]

    @staticmethod
    def of(whole: Sequence[float], part: Sequence[float]) -> Added:
        """`whole` has two figures for each of `part`. ValueError where it has not."""
        pairs = list(zip(whole[::2], whole[1::2], strict=True))
        added = tuple(statistics.mean(pair) - less for pair, less in zip(pairs, part, strict=True))
        return Added(Spread(added), tuple(first - second for first, second in pairs))

    @property
    def mean(self) -> float:
        """The mean of the rounds."""
        return statistics.mean(self.spread.rounds)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the mean is with a confidence of 99.9 %. The variance of one figure is pooled from how the rounds
        differ and from the pairs, which are equal but for what the machine does."""
        rounds = self.spread.rounds
        count, mean = len(rounds), self.mean
        squares = sum((x - mean) ** 2 for x in rounds) / _VARIANCE + sum(x**2 for x in self.pairs) / 2
        degrees = count - 1 + len(self.pairs)
        known = list(_T)
        t = _T[known[bisect_right(known, degrees) - 1]]
        half = t * math.sqrt(squares / degrees * _VARIANCE / count)
        return mean - half, mean + half

    @property
    def measurable(self) -> bool:
        """Whether it shows: the interval has 0 outside, and all rounds are on one side of it."""
        low, high = self.interval
        apart = min(self.spread.rounds) > 0 or max(self.spread.rounds) < 0
        return apart and (low > 0 or high < 0)
