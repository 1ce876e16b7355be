"""Timeouts."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, approximate, habit
from lbgen.engines.nginx.statements import ClientTimes, Times
from lbgen.engines.nginx.view import Contributor
from lbgen.engines.text import Atom
from lbgen.plan.model import ClientTimeouts, Forward, Plan, Timeouts

_NO_LIMIT = "365d"


def duration(milliseconds: int) -> Atom:
    """Milliseconds in nginx's notation; 0 = no limit, written as a year since nginx has no such value."""
    if milliseconds == 0:
        return Atom(_NO_LIMIT)
    return Atom(f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms")


def proxy_times(timeouts: Timeouts) -> Times:
    """nginx has one timer for the head and for silence in the body of a response: the longer time applies."""
    unlimited = 0 in (timeouts.response, timeouts.idle)
    read = 0 if unlimited else max(timeouts.response, timeouts.idle)
    return Times(duration(timeouts.connect), duration(read), duration(timeouts.idle))


def client_times(timeouts: ClientTimeouts) -> ClientTimes:
    return ClientTimes(duration(timeouts.header), duration(timeouts.body), duration(timeouts.keepalive))


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    l4 = {rule.route for x in plan.listeners for rule in x.l4_rules}
    for route in plan.routes:
        if isinstance(route.action, Forward) and route.name not in l4:
            times = route.action.timeouts
            if times.response != times.idle:
                yield _objection(times, route.field)


def _objection(timeouts: Timeouts, field: str) -> Objection:
    response, idle = _seconds(timeouts.response), _seconds(timeouts.idle)
    only = "nginx has one timer for an endpoint's response head and for silence in its body or a tunnel"
    if timeouts.idle and (timeouts.idle < timeouts.response or not timeouts.response):
        note = (
            f"{only}: silence ends after {response} (response), the longer one, not {idle}; set both to the same time"
        )
        shows = {"timeouts.idle.body": ("cut", "time")}
        return Objection(approximate(note, shows), f"{field}.timeouts.idle", "timeouts.idle")
    note = f"{only}: the head may take {idle} (idle), the longer one, not {response}"
    late = {"timeouts.response.longer": "time"}
    return Objection(habit(note, late), f"{field}.timeouts.response", "timeouts.response")


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s" if milliseconds else "no limit of time"


TIMEOUTS = Contributor(objections=_objections)
