"""CPU per request of two proxies, measured in turn: A B A B; ratios of medians with their spread."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class Paired:
    """Figures of both sides by round, in one unit."""

    base: tuple[float, ...]
    ours: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median of ours over median of base."""
        return statistics.median(self.ours) / statistics.median(self.base)

    @property
    def spread(self) -> tuple[float, float]:
        """The middle half of the ratios of single rounds."""
        return quartiles([ours / base for base, ours in zip(self.base, self.ours, strict=True)])


def quartiles(figures: Sequence[float]) -> tuple[float, float]:
    """The first and third quartile; both the figure itself after one round."""
    if len(figures) == 1:
        return figures[0], figures[0]
    low, _, high = statistics.quantiles(figures, n=4, method="inclusive")
    return low, high


def measure_pair(
    base: Callable[[], float], ours: Callable[[], float], rounds: int, progress: Callable[[], None] = lambda: None
) -> Paired:
    """Both in turn, `rounds` times each; `progress` is called after each single one."""
    figures: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for measure, found in zip((base, ours), figures, strict=True):
            found.append(measure())
            progress()
    return Paired(tuple(figures[0]), tuple(figures[1]))
