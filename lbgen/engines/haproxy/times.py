"""Times of a route -> what HAProxy's own timers take, and what is left to the Lua filter that keeps the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.policy import RetryCause

if TYPE_CHECKING:
    from lbgen.plan.model import Forward, Timeouts
    from lbgen.plan.policy import Retries


def alone(retries: Retries | None) -> bool:
    """Whether HAProxy's own timer has to wait for the head: only that one starts another try, and a filter that waits
    keeps HAProxy from another try when the endpoint closes."""
    return retries is not None and not {RetryCause.TIMEOUT, RetryCause.RESET}.isdisjoint(retries.causes)


def connect(times: Timeouts) -> int:
    """Milliseconds for a connection; a request that may not take longer has none of it."""
    return least(times.connect, times.request)


def filtered(times: Timeouts, retries: Retries | None) -> bool:
    """Whether the filter keeps all of these times, as HAProxy has but one timer for head and body. That one would run
    on while a filter waits, so there is none then."""
    return not alone(retries) and (times.request > 0 or times.response != times.idle)


def silence(times: Timeouts, retries: Retries | None) -> int:
    """Milliseconds of HAProxy's one timer for the head and each piece of the body; 0 = it has no say."""
    if alone(retries):
        return least(times.response, times.request)
    return 0 if filtered(times, retries) else times.response


def kept(action: Forward) -> str:
    """`response idle head request` for the filter, in milliseconds: `head` is the time of the request as
    far as it counts until the response head. 0 = it does not; "" = none of them."""
    times = action.timeouts
    if filtered(times, action.retries):
        return f"{times.response} {times.idle} {times.request} {times.request}"
    own = silence(times, action.retries)
    idle = times.idle if times.idle and (not own or times.idle < own) else 0
    return f"0 {idle} 0 {times.request}" if idle or times.request else ""


def falls_short(action: Forward) -> bool:
    """Whether a body may be silent for the response time only, since HAProxy's own timer has to keep that."""
    times = action.timeouts
    return alone(action.retries) and times.response > 0 and (times.idle > times.response or not times.idle)


def least(*milliseconds: int) -> int:
    """The shortest of several times; 0 = no limit."""
    return min(filter(None, milliseconds), default=0)


def shown(milliseconds: int) -> str:
    """A time for people."""
    return f"{milliseconds / 1000:g} s" if milliseconds else "any time"
