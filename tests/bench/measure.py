"""CPU per request of two proxies, measured in turn: A B A B; ratios of medians with their spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.bench.report import Spread

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Paired:
    """Figures of both sides by round, in one unit."""

    base: tuple[float, ...]
    ours: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median of ours over median of base."""
        return Spread(self.ours).median / Spread(self.base).median

    @property
    def spread(self) -> tuple[float, float]:
        """The middle half of the ratios of single rounds."""
        return Spread(tuple(ours / base for base, ours in zip(self.base, self.ours, strict=True))).quartiles


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
