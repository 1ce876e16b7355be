"""Least connections by weights: an endpoint's share of new connections falls with the cube of its open ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.agent_spec import BalancedPool

COUNT_SECONDS = 0.2  # between two counts
FULL = 100
_NEW = 1 / 3  # what the newest count has of the average: with the cube, shares settle within a second
_NOTABLE = 1.25  # shares that change by less are not loaded into the kernel


def average(
    before: Mapping[tuple[str, int], float], counts: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], float]:
    """The moving averages of connections by endpoint after one more count."""
    keys = before.keys() | counts.keys()
    found = {key: before.get(key, 0.0) * (1 - _NEW) + counts.get(key, 0) * _NEW for key in keys}
    return {key: value for key, value in found.items() if value > 0.01}


def shares(pool: BalancedPool, averages: Mapping[tuple[str, int], float]) -> dict[str, int]:
    """Percent of its weight that each endpoint of `pool` gets: FULL for the one with the fewest connections for its
    weight, and at least 1."""
    weighted = [x for x in pool.endpoints if x.weight]
    if not pool.least:
        return {x.name: FULL for x in weighted}
    mean = sum(x.weight for x in weighted) / max(1, len(weighted))
    loads = {x.name: 1 + averages.get((x.host, x.port), 0.0) * mean / x.weight for x in weighted}
    least = min(loads.values(), default=1.0)
    return {name: max(1, round(FULL * (least / load) ** 3)) for name, load in loads.items()}


def without_full(
    pool: BalancedPool, percents: Mapping[str, int], counts: Mapping[tuple[str, int], int]
) -> dict[str, int]:
    """These shares, 0 for endpoints that have as many connections as they may. Where all have, as they were: the kernel
    closes what is too much, and backups are not for that."""
    full = {x.name for x in pool.endpoints if pool.most is not None and counts.get((x.host, x.port), 0) >= pool.most}
    if all(x.name in full for x in pool.endpoints if x.weight and not x.backup):
        return dict(percents)
    return {name: 0 if name in full else percent for name, percent in percents.items()}


def differ(one: Mapping[str, Mapping[str, int]], other: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether any share of any pool differs so much that the kernel should know."""
    return any(
        not before / _NOTABLE <= percent <= before * _NOTABLE
        for pool, now in other.items()
        for name, percent in now.items()
        for before in [one.get(pool, {}).get(name, FULL)]
    )
