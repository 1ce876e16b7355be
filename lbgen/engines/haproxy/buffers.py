"""The size of HAProxy's buffers, which have to hold a request head and what routes buffer of bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from lbgen.plan.model import Listener, Plan

_HEAD = 24  # KiB of a request head, unless a listener's limits are higher
_ADDED = 8  # KiB of headers that may be added to it
WHOLE_BODY = 1024 * 1024  # bytes of a buffered request
_WHOLE_RESPONSE = 256 * 1024  # bytes of a response that an endpoint can send at once to a slow client


def head_kib(plan: Plan) -> int:
    """KiB of a request head that all listeners can read."""
    return max([_HEAD, *map(_listener_head, plan.listeners)])


def buffer_bytes(plan: Plan) -> int:
    """Bytes of one buffer."""
    return (head_kib(plan) + _ADDED) * 1024 + _buffered_bytes(plan)


def _listener_head(listener: Listener) -> int:
    """KiB that a listener has to read to see that a head is over its limits; 0 without limits."""
    limits = listener.limits
    if limits.headers is None and limits.target is None:
        return 0
    return ((limits.headers or _HEAD * 1024) + (limits.target or 0)) // 1024 + 4


def _buffered_bytes(plan: Plan) -> int:
    """Bytes beside the head."""
    buffering = [route.action.buffering for route in plan.routes if isinstance(route.action, Forward)]
    if any(each.request for each in buffering):
        return WHOLE_BODY
    return _WHOLE_RESPONSE if any(each.response for each in buffering) else 0
