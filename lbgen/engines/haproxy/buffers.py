"""What requests and answers have to fit into -> the size of HAProxy's buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from lbgen.plan.model import Listener, Plan

_HEAD = 24  # KiB of a request head, unless a listener's limits are higher
_ADDED = 8  # KiB of headers that may be added to it
WHOLE_BODY = 1024 * 1024  # bytes of a request that is held until it is there
_WHOLE_ANSWER = 256 * 1024  # bytes of an answer that an endpoint is rid of, however slow the client


def head_room(plan: Plan) -> int:
    """KiB of a request head that all listeners can read."""
    return max([_HEAD, *(_head(listener) for listener in plan.listeners)])


def buffer_size(plan: Plan) -> int:
    """Bytes."""
    return (head_room(plan) + _ADDED) * 1024 + _buffered(plan)


def _head(listener: Listener) -> int:
    """KiB of request head that a listener has to read, to tell one that is over its limits."""
    limits = listener.limits
    if limits.headers is None and limits.target is None:
        return 0
    return ((limits.headers or _HEAD * 1024) + (limits.target or 0)) // 1024 + 4


def _buffered(plan: Plan) -> int:
    """Bytes that a buffer has to hold beside a head."""
    kept = [route.action.buffering for route in plan.routes if isinstance(route.action, Forward)]
    if any(buffering.request for buffering in kept):
        return WHOLE_BODY
    return _WHOLE_ANSWER if any(buffering.response for buffering in kept) else 0
