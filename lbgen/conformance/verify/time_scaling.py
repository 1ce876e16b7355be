"""Divide long times of a plan by one factor, so that a verification can wait for them."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Forward, Plan, Pool, Route

LONGEST = 3_000  # milliseconds that a verification waits for one time
APART = 1.4  # ratio of two neighbouring times, so that they can be told apart
STEP = 1.25  # by which a factor becomes smaller that does not suit
_LISTENER, _ROUTE = ("header", "body", "keepalive"), ("connect", "response", "idle", "request")  # fields with times
SHORTEST = 250  # milliseconds below which a busy machine cannot tell times apart

_Times = TypeVar("_Times", bound=Struct)


class Scale(Struct, frozen=True):
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
    """Every time that `scale_times` changes, in milliseconds, ascending, once; without 0."""
    found: set[int] = set()

    def note(time: int) -> int:
        found.add(time)
        return time

    _with_times(plan, note)
    return tuple(sorted(found - {0}))


def scale_times(plan: Plan, scale: Scale) -> Plan:
    """`plan` with every time scaled, but for ages of cookies and CORS and the seconds of rates."""
    return _with_times(plan, scale) if scale.pairs else plan


def _with_times(plan: Plan, change: Callable[[int], int]) -> Plan:
    return replace(
        plan,
        listeners=tuple(replace(x, timeouts=_changed(x.timeouts, change, *_LISTENER)) for x in plan.listeners),
        pools=tuple(_pool(pool, change) for pool in plan.pools),
        routes=tuple(_route(route, change) for route in plan.routes),
    )


def _changed(times: _Times, change: Callable[[int], int], *names: str) -> _Times:
    return replace(times, **{name: change(getattr(times, name)) for name in names})


def _route(route: Route, change: Callable[[int], int]) -> Route:
    action, auth = route.action, route.auth
    if isinstance(auth, ForwardAuth):
        auth = _changed(auth, change, "connect", "response")
    if isinstance(action, Forward):
        action = replace(action, timeouts=_changed(action.timeouts, change, *_ROUTE))
    return replace(route, action=action, auth=auth)


def _pool(pool: Pool, change: Callable[[int], int]) -> Pool:
    return replace(
        pool,
        active=pool.active and _changed(pool.active, change, "interval", "timeout"),
        passive=pool.passive and _changed(pool.passive, change, "eject_for"),
        queue=pool.queue and _changed(pool.queue, change, "timeout"),
        slow_start=change(pool.slow_start),
    )
