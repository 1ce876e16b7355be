"""The health of an endpoint by its checks: up or down, since when, and its share of the weight. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from lbgen.records import replace

FULL = 100
_TENTHS = 10


@dataclass(frozen=True, slots=True)
class Health:
    """`since`: when it became so (seconds of the epoch). `streak`: checks in a row that say otherwise. `error`: the
    message of the last failed check. `returned`: it was down before, so slow start applies. `checked`: at least one
    check has run; before that it counts as up."""

    since: float
    up: bool = True
    streak: int = 0
    error: str = ""
    returned: bool = False
    checked: bool = False


def apply_check(health: Health, error: str, now: float, *, fall: int, rise: int) -> Health:
    """`health` after one more check, whose `error` is empty on success.

    `fall` failures in a row take an endpoint down, `rise` successes in a row bring it back. The first check of all
    decides alone, as with HAProxy and Envoy.
    """
    if (not error) == health.up:
        return replace(health, streak=0, error=error, checked=True)
    streak = health.streak + 1
    if health.up:
        if streak >= fall or not health.checked:
            return Health(now, up=False, error=error, checked=True)
        return replace(health, streak=streak, error=error)
    return Health(now, returned=True, checked=True) if streak >= rise else replace(health, streak=streak)


def share(health: Health, now: float, slow_start: int) -> int:
    """Percent of its weight now: 0 = down; after an outage it grows by tenths over `slow_start` milliseconds."""
    if not health.up:
        return 0
    elapsed = (now - health.since) * 1000
    if not health.returned or elapsed >= slow_start:
        return FULL
    return max(1, int(elapsed * _TENTHS / slow_start)) * _TENTHS


def next_growth(health: Health, now: float, slow_start: int) -> float | None:
    """When `share` grows next (seconds of the epoch); None when it does not grow."""
    percent = share(health, now, slow_start)
    if percent in (0, FULL):
        return None
    return health.since + (percent // _TENTHS + 1) * slow_start / _TENTHS / 1000
