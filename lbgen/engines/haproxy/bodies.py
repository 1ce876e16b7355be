"""Bodies that HAProxy waits for before it sends a request on: to hold them, or to be able to send them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.buffers import WHOLE_BODY
from lbgen.engines.haproxy.upstream_servers import NEVER
from lbgen.plan.model import Forward
from lbgen.plan.policy import REPLAYED_BODY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.per_route import Chooser
    from lbgen.engines.haproxy.statements import Line
    from lbgen.plan.model import Route


def waiting_lines(routes: Iterable[tuple[str, Route]], chooser: Chooser) -> list[Line]:
    """The statements that wait, no longer than the request may take (`timeouts.request`); the client's own time limits
    each silence. `routes` are (key, route)."""
    groups: dict[tuple[bool, int], list[str]] = {}
    for key, route in routes:
        action = route.action
        if isinstance(action, Forward) and _waits(action):
            groups.setdefault((not action.buffering.request, action.timeouts.request), []).append(key)
    found = []
    for streams, most in sorted(groups):
        size, name = (REPLAYED_BODY + 1, "sent_again") if streams else (WHOLE_BODY, "held")
        wait = f"http-request wait-for-body time {f'{most}ms' if most else NEVER} at-least {size}"
        found.append(chooser.only((wait,), groups[streams, most], f"{name}.{most}" if most else name))
    return found


def due_while_waiting(routes: Iterable[tuple[str, Route]]) -> bool:
    """Whether the time of a request may be over while its body is waited for."""
    forwards = (route.action for _, route in routes if isinstance(route.action, Forward))
    return any(forward.timeouts.request and _waits(forward) for forward in forwards)


def _waits(forward: Forward) -> bool:
    return forward.buffering.request or forward.retries is not None
