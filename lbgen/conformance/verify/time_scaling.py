"""Divide long times of a plan by one factor, so that a verification can wait for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from lbgen.plan.model import Forward, Plan, Pool, Route
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.plan.listener import ClientTimeouts
    from lbgen.plan.route import Timeouts

LONGEST = 3_000  # milliseconds that a verification waits for one time
APART = 1.4  # ratio of two neighbouring times, so that they can be told apart
STEP = 1.25  # by which a factor becomes smaller that does not suit
_LISTENER, _ROUTE = ("header", "body", "keepalive"), ("connect", "response", "idle", "request")  # fields with times
SHORTEST = 250  # milliseconds below which a busy machine cannot tell times apart

_Times = TypeVar("_Times", "ClientTimeouts", "Timeouts")


@dataclass(frozen=True, slots=True)
class Scale:
    """`pairs` are (time, time verified instead) in milliseconds, ascending, for times that change. Different times stay
    different and in their order, as engines group things by them."""

    factor: float = 1.0
    pairs: tuple[tuple[int, int], ...] = ()

    def __call__(self, milliseconds: int) -> int:
        """The time to verify instead; 0 (no limit) stays."""
        return dict(self.pairs).get(milliseconds, milliseconds)


def choose_scale(plan: Plan, suits: Callable[[Plan], bool] = lambda shorter: True) -> Scale:
    """The scale that brings the longest time of `plan` down to about `LONGEST`, or as near as `suits` allows: it is
    asked of the plan with shorter times."""
    times = times_of(plan)
    factor = max(times, default=0) / LONGEST
    while factor > 1:
        scale = _scale(times, factor)
        if suits(scale_times(plan, scale)):
            return scale
        factor /= STEP
    return Scale()


def _scale(times: tuple[int, ...], factor: float) -> Scale:
    pairs = []
    last = 0
    for time in times:
        last = max(min(time, SHORTEST), round(time / factor), ceil(last * APART))
        pairs.append((time, last))
    return Scale(factor, tuple((time, new) for time, new in pairs if time != new))


def times_of(plan: Plan) -> tuple[int, ...]:
    """Every time that `scaled` changes, in milliseconds, ascending, once; without 0."""
    return tuple(sorted({time for time in _times(plan) if time}))


def _times(plan: Plan) -> Iterator[int]:
    for listener in plan.listeners:
        yield from attrgetter(*_LISTENER)(listener.timeouts)
    for route in plan.routes:
        if isinstance(route.action, Forward):
            yield from attrgetter(*_ROUTE)(route.action.timeouts)
    for pool in plan.pools:
        if pool.active is not None:
            yield from (pool.active.interval, pool.active.timeout)
        if pool.passive is not None:
            yield pool.passive.eject_for
        if pool.queue is not None:
            yield pool.queue.timeout
        yield pool.slow_start


def scale_times(plan: Plan, scale: Scale) -> Plan:
    """`plan` with every time scaled, but for ages of cookies and CORS and the seconds of rates."""
    if not scale.pairs:
        return plan
    listeners = tuple(replace(x, timeouts=_scale_fields(x.timeouts, scale, *_LISTENER)) for x in plan.listeners)
    pools = tuple(_pool(pool, scale) for pool in plan.pools)
    return replace(plan, listeners=listeners, pools=pools, routes=tuple(_route(r, scale) for r in plan.routes))


def _scale_fields(times: _Times, scale: Scale, *names: str) -> _Times:
    return replace(times, **{name: scale(getattr(times, name)) for name in names})


def _route(route: Route, scale: Scale) -> Route:
    action = route.action
    if not isinstance(action, Forward):
        return route
    return replace(route, action=replace(action, timeouts=_scale_fields(action.timeouts, scale, *_ROUTE)))


def _pool(pool: Pool, scale: Scale) -> Pool:
    active, passive, queue = pool.active, pool.passive, pool.queue
    return replace(
        pool,
        active=active and replace(active, interval=scale(active.interval), timeout=scale(active.timeout)),
        passive=passive and replace(passive, eject_for=scale(passive.eject_for)),
        queue=queue and replace(queue, timeout=scale(queue.timeout)),
        slow_start=scale(pool.slow_start),
    )
