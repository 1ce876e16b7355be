"""Shares of a split as percentages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.view import Share
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from lbgen.plan.model import Target


def share_names(targets: list[Target]) -> list[str]:
    """The values of a split: the pools, numbered when one occurs twice."""
    pools = [t.pool for t in targets]
    return pools if len(set(pools)) == len(pools) else [f"{pool}:{at}" for at, pool in enumerate(pools)]


def shares(targets: list[Target], values: list[str]) -> tuple[Share, ...]:
    """Percentages with two decimals, the finest that nginx accepts; the last target gets the rest."""
    total = sum(t.weight for t in targets)
    out = []
    left = 10_000
    for target, value in zip(targets[:-1], values[:-1], strict=True):
        part = min(max(1, round(target.weight * 10_000 / total)), left - 1)
        left -= part
        out.append(Share(Atom(f"{part / 100:g}%"), Atom(value)))
    return (*out, Share(Atom("*"), Atom(values[-1])))
