"""Request bodies that HAProxy waits for before it forwards: to buffer them, or to be able to send them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.buffers import WHOLE_BODY
from lbgen.engines.haproxy.statements import Statement, statement
from lbgen.engines.haproxy.timeouts import duration
from lbgen.plan.model import Forward
from lbgen.plan.policy import REPLAYED_BODY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import Route


def wait_statements(routes: Iterable[tuple[str, Route]], per_route: PerRoute) -> list[Statement]:
    """Wait for bodies, up to `timeouts.request`; the listener's own timeouts limit each silence. `routes` are
    (key, route)."""
    groups: dict[tuple[bool, int], list[str]] = {}
    for key, route in routes:
        action = route.action
        if isinstance(action, Forward) and _waits(action):
            groups.setdefault((not action.buffering.request, action.timeouts.request), []).append(key)
    statements = []
    for streams, time in sorted(groups):
        size, name = (REPLAYED_BODY + 1, "sent_again") if streams else (WHOLE_BODY, "held")
        wait = statement(f"http-request wait-for-body time {duration(time)} at-least {size}")
        statements.append(per_route.restrict(wait, groups[streams, time], f"{name}.{time}" if time else name))
    return statements


def may_expire_while_waiting(routes: Iterable[tuple[str, Route]]) -> bool:
    """Whether `timeouts.request` of some route can expire before the body has arrived."""
    forwards = (route.action for _, route in routes if isinstance(route.action, Forward))
    return any(forward.timeouts.request and _waits(forward) for forward in forwards)


def _waits(forward: Forward) -> bool:
    return forward.buffering.request or forward.retries is not None
