"""Timeouts in nginx's notation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.view import Times
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from lbgen.plan.model import Timeouts

_NO_LIMIT = "365d"


def duration(milliseconds: int) -> Atom:
    """Milliseconds in nginx's notation; 0 = no limit, written as a year since nginx has no such value."""
    if milliseconds == 0:
        return Atom(_NO_LIMIT)
    return Atom(f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms")


def proxy_times(timeouts: Timeouts) -> Times:
    """nginx has one read timeout for head and body of a response: the response timeout applies."""
    return Times(duration(timeouts.connect), duration(timeouts.response), duration(timeouts.idle))
