"""Timeouts of a route. HAProxy has one timer for an endpoint that is silent, before its response and in a body; from
3.0 on a rule can set it anew once the head has come."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import AT_TIMES, Objection, approximate, habit, version_key
from lbgen.engines.haproxy.statements import Statement, batches, is_one_of, statement
from lbgen.engines.haproxy.view import Contributor, PoolUse
from lbgen.plan.model import Forward, Plan, Timeouts

_UPLOADS = f"{AT_TIMES}time"  # of uploads to an endpoint that stops reading
LONGEST = "24d"  # HAProxy's longest time


def duration(milliseconds: int) -> str:
    """A time as HAProxy writes it; 0 = no limit."""
    if not milliseconds:
        return LONGEST
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def _sets_time_of_bodies(version: str) -> bool:
    """Whether this version can change the timer between a response head and its body."""
    return version_key(version) >= (3, 0)


def server_timeout(times: Timeouts, version: str) -> int:
    """Milliseconds of `timeout server`: the longer time where it has to do for head and body; 0 = no limit."""
    if _sets_time_of_bodies(version):
        return times.response
    return 0 if 0 in (times.response, times.idle) else max(times.response, times.idle)


def _backend(use: PoolUse) -> Iterator[Statement]:
    """The time for a silent body, and the times of routes for which those of the backend do not apply."""
    if use.l7:
        yield from _body_statements(use, use.times, [])
    for times, keys in use.other_times.items():
        for some in batches(keys):
            for side, time in (("server", server_timeout(times, use.version)), ("tunnel", times.idle)):
                when = [is_one_of("txn.route", some)]
                set_time = f"http-request set-timeout {side} {duration(time)}"
                yield statement(set_time, when=when, origin=use.pool.field)
        yield from _body_statements(use, times, keys)


def _body_statements(use: PoolUse, times: Timeouts, keys: list[str]) -> Iterator[Statement]:
    """Set the time for a silent body; `keys` are those of the routes, none = of all."""
    if _sets_time_of_bodies(use.version) and times.response != times.idle:
        for some in [*batches(keys)] or [[]]:
            when = [is_one_of("txn.route", some)] if some else []
            set_time = f"http-response set-timeout server {duration(times.idle)}"
            yield statement(set_time, when=when, origin=use.pool.field)


def _objections(plan: Plan, version: str) -> Iterator[Objection]:
    """One timer keeps both times before HAProxy 3.0: the longer holds."""
    l4 = {rule.route for listener in plan.listeners for rule in listener.l4_rules}
    for route in plan.routes:
        if not isinstance(route.action, Forward) or route.name in l4:
            continue
        times, where = route.action.timeouts, f"{route.field}.timeouts"
        if times.response == times.idle:
            continue
        if _sets_time_of_bodies(version):
            note = f"an endpoint that stops reading is given up after {_shown(times.response)} (response)"
            yield Objection(habit(note, {"timeouts.idle.routes": _UPLOADS}), where, "timeouts.idle")
        elif min(filter(None, (times.response, times.idle))) == times.idle:
            silence = f"an endpoint may be silent in a body for {_shown(times.response)} (response), not for idle"
            shows: dict[str, str | tuple[str, ...]] = {"timeouts.idle.body": "time", "timeouts.idle.routes": _UPLOADS}
            yield Objection(approximate(f"{silence}; 3.0 tells both", shows), where, "timeouts.idle")
        else:
            note = f"a response may begin within {_shown(times.idle)} (idle), not response; HAProxy 3.0 tells both"
            yield Objection(habit(note, {"timeouts.response.routes": "time"}), where, "timeouts.response")


def _shown(milliseconds: int) -> str:
    """A time for people."""
    return f"{milliseconds / 1000:g} s" if milliseconds else "any time"


TIMEOUTS = Contributor(backend=_backend, objections=_objections)
