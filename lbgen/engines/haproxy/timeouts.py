"""Times of a route -> what HAProxy's own timers take, and what is left to the Lua filter that keeps the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.text import Literal
from lbgen.plan.model import Forward
from lbgen.plan.policy import RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.per_route import Chooser
    from lbgen.engines.haproxy.statements import Line
    from lbgen.plan.model import Route, Timeouts
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


def late_lines(routes: Iterable[tuple[str, Route]], chooser: Chooser) -> list[Line]:
    """The statements that answer 504 where each try has the time of the request anew and the last head came after its
    end. `routes` are (key, route); `txn.begun_ms` is when the request came."""
    groups: dict[int, list[str]] = {}
    for key, route in routes:
        action = route.action
        if isinstance(action, Forward) and action.timeouts.request and alone(action.retries):
            groups.setdefault(action.timeouts.request, []).append(key)
    answer = ("http-response return status 504 content-type text/plain string", Literal("Gateway Timeout\n"))
    return [
        chooser.only(answer, keys, f"late.{most}", f"{{ date(0,ms),sub(txn.begun_ms) ge {most} }} !{{ status 101 }}")
        for most, keys in sorted(groups.items())
    ]


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
