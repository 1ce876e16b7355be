"""Timeouts in nginx's notation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.view import ClientTimes, Times
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from lbgen.plan.model import ClientTimeouts, Timeouts

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
