"""Times in nginx's notation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.view import Times
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from lbgen.plan.model import Timeouts

_NO_LIMIT = "365d"


def duration(milliseconds: int) -> Atom:
    """A time in nginx's notation; 0 = no limit, which nginx can only say by a very long one."""
    if milliseconds == 0:
        return Atom(_NO_LIMIT)
    return Atom(f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms")


def times(wanted: Timeouts) -> Times:
    """nginx has one timer for reading from an endpoint, head or body: the response time rules it."""
    return Times(duration(wanted.connect), duration(wanted.response), duration(wanted.idle))
