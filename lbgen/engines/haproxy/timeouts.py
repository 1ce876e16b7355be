"""Timeouts of a route: which of them HAProxy's own timers keep, and which are left to a Lua filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, acl, batches, is_one_of, return_text, statement
from lbgen.engines.text import Literal
from lbgen.plan.model import Forward
from lbgen.plan.policy import RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import Route, Timeouts
    from lbgen.plan.policy import Retries

LONGEST = "24d"  # HAProxy's longest time


def duration(milliseconds: int) -> str:
    """A time as HAProxy writes it; 0 = no limit."""
    if not milliseconds:
        return LONGEST
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def retries_after_sending(retries: Retries | None) -> bool:
    """Whether a reset or a timeout is retried, which needs HAProxy's own timer for the response head: no other timer
    starts a try, and a filter that waits for the head suppresses tries when the endpoint closes."""
    return retries is not None and not {RetryCause.TIMEOUT, RetryCause.RESET}.isdisjoint(retries.causes)


def connect_time(times: Timeouts) -> int:
    """Milliseconds for a connection, capped by the time of the request; 0 = no limit."""
    return shortest(times.connect, times.request)


def is_filtered(times: Timeouts, retries: Retries | None) -> bool:
    """Whether the filter keeps all of these times. HAProxy has one timer for head and body, and that one runs on while
    a filter waits; so it is off then."""
    return not retries_after_sending(retries) and (times.request > 0 or times.response != times.idle)


def server_timeout(times: Timeouts, retries: Retries | None) -> int:
    """Milliseconds of `timeout server`, HAProxy's timer for the head and each piece of the body; 0 = no limit."""
    if retries_after_sending(retries):
        return shortest(times.response, times.request)
    return 0 if is_filtered(times, retries) else times.response


def filter_times(action: Forward) -> str:
    """`response idle head request` for the filter, in milliseconds, 0 = not kept by it; "" when all are 0. `head` is
    the time of the request as far as it applies to the response head."""
    times = action.timeouts
    if is_filtered(times, action.retries):
        return f"{times.response} {times.idle} {times.request} {times.request}"
    native = server_timeout(times, action.retries)
    idle = times.idle if times.idle and (not native or times.idle < native) else 0
    return f"0 {idle} 0 {times.request}" if idle or times.request else ""


def backend_statements(origin: str, times: Timeouts, retries: Retries | None, keys: list[str]) -> Iterator[Statement]:
    """Statements of a backend whose own times do not apply to the routes `keys`."""
    for batch in batches(keys):
        for side, time in (("server", server_timeout(times, retries)), ("tunnel", times.idle)):
            when = [is_one_of("txn.route", batch)]
            yield statement(f"http-request set-timeout {side} {duration(time)}", when=when, origin=origin)


def late_statements(routes: Iterable[tuple[str, Route]], per_route: PerRoute) -> list[Statement]:
    """Answer 504 where HAProxy starts the time of the request anew for each try, and the last head came after its end.

    `routes` are (key, route); `txn.begun_ms` holds when the request came.
    """
    groups: dict[int, list[str]] = {}
    for key, route in routes:
        action = route.action
        if isinstance(action, Forward) and action.timeouts.request and retries_after_sending(action.retries):
            groups.setdefault(action.timeouts.request, []).append(key)
    text = Literal("Gateway Timeout\n")
    statements = []
    for time, keys in sorted(groups.items()):
        acls = [acl(f"date(0,ms),sub(txn.begun_ms) ge {time}"), ~acl("status 101")]
        statements.append(per_route.restrict(return_text(504, text, "http-response", acls), keys, f"late.{time}"))
    return statements


def is_idle_cut_short(action: Forward) -> bool:
    """Whether HAProxy's timer, which has to keep the response time, ends a silence before the idle time."""
    times = action.timeouts
    return retries_after_sending(action.retries) and times.response > 0 and not 0 < times.idle <= times.response


def shortest(*milliseconds: int) -> int:
    """The shortest of several times; 0 = no limit."""
    return min(filter(None, milliseconds), default=0)


def shown(milliseconds: int) -> str:
    """A time for people."""
    return f"{milliseconds / 1000:g} s" if milliseconds else "any time"
