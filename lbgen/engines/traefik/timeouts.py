"""Times: of clients, in which each request must be whole, and of a request at its route."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.document import Commented
from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.view import Contributor, HttpRoute
from lbgen.plan.model import Listener

if TYPE_CHECKING:
    from lbgen.engines.document import Data

FOREVER = "2562047h"  # where 0 is a default: the longest duration that Go accepts
_WHOLE = 10  # times the longest silence, so that slow uploads come to an end


def duration(milliseconds: int) -> str:
    """`60s` or `1500ms`; 0 is Traefik's word for no limit."""
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"


def _entry_point(listener: Listener, _: str) -> dict[str, Data]:
    times = listener.timeouts
    read = _WHOLE * max(times.header, times.body) if times.header and times.body else 0
    responding: Data = {"readTimeout": duration(read), "idleTimeout": duration(times.keepalive)}
    comment = "readTimeout is for a whole request: Traefik cannot tell slow uploads from silent ones."
    return {"transport": Commented(comment, {"respondingTimeouts": responding})}


def _middlewares(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    if at.forward is not None and at.forward.timeouts.request:
        yield "time", use_plugin("timeout", at.forward.timeouts.request)


CLIENT_TIMEOUTS = Contributor(entry_point=_entry_point)
TIMEOUTS = Contributor(middlewares=_middlewares)
