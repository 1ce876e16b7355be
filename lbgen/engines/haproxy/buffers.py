"""The size of HAProxy's buffers, which have to hold a request head, what is added to it, and what routes buffer.

By default that is HAProxy's own size: 15 KiB of head and 1 KiB of additions in 16 KiB.
"""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.haproxy.statements import Section, Statement, section, statement
from lbgen.engines.haproxy.timeouts import LONGEST
from lbgen.engines.haproxy.values import count_bytes
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.plan.model import Forward, HeaderEdits, Listener, Plan, Respond, Route

_KIB = 1024
_HEAD = 15  # KiB of a request head, unless a listener's limits are higher
_ADDED = 1  # KiB of what every request may get: forwarded headers, an id
_DEFAULT = (_HEAD + _ADDED) * _KIB
_WHOLE_BODY = 1024 * 1024  # bytes of a buffered request
_WHOLE_RESPONSE = 256 * 1024  # bytes of a response that an endpoint can send at once to a slow client


def head_kib(plan: Plan) -> int:
    """KiB of a request head that all listeners can read."""
    return max([_HEAD, *map(_listener_head, plan.listeners)])


def _added_kib(plan: Plan) -> int:
    """KiB that may be added to a head."""
    edits = max(map(_edited_bytes, plan.routes), default=0)
    return _ADDED + (0 if edits <= _KIB // 2 else -(-edits // _KIB))


def _buffer_bytes(plan: Plan) -> int:
    """Bytes of one buffer."""
    bodies = (count_bytes(route.action.body) for route in plan.routes if isinstance(route.action, Respond))
    pages = (count_bytes(page.body) for page in plan.every_page())
    fixed = max((*bodies, *pages), default=0)
    return (head_kib(plan) + _added_kib(plan) + -(-max(fixed - _DEFAULT // 2, 0) // _KIB)) * _KIB + _buffered_bytes(
        plan
    )


def _listener_head(listener: Listener) -> int:
    """KiB that a listener has to read to see that a head is over its limits; 0 without limits."""
    limits = listener.limits
    if limits.headers is None and limits.target is None:
        return 0
    return ((limits.headers or _HEAD * _KIB) + (limits.target or 0)) // _KIB + 4


def _edited_bytes(route: Route) -> int:
    """Bytes of the headers that the edits of a route add at most to a request or a response."""
    requests = _size(route.request_headers)
    if isinstance(route.action, Forward):
        requests += max([_size(target.request_headers) for target in route.action.targets])
    return max(requests, _size(route.response_headers))


def _size(edits: HeaderEdits) -> int:
    return sum(len(f"{name}: ") + count_bytes(value) for name, value in (*edits.set, *edits.add))


def _buffered_bytes(plan: Plan) -> int:
    """Bytes beside the head."""
    forwards = [route.action for route in plan.routes if isinstance(route.action, Forward)]
    if any(each.buffering.request for each in forwards):
        return _WHOLE_BODY
    return _WHOLE_RESPONSE if any(each.buffering.response for each in forwards) else 0


def _settings(plan: Plan, _: str) -> Iterator[Section]:
    if (size := _buffer_bytes(plan)) != _DEFAULT:
        title = f"A buffer holds {head_kib(plan)} KiB of request head, and what is added to it or kept beside it"
        sizes = (f"tune.bufsize {size}", f"tune.maxrewrite {_added_kib(plan) * _KIB}")
        yield section(title, map(statement, sizes))


def _admission(on: HttpListener) -> Iterator[Statement]:
    if held := [name for name, action in on.forwards.items() if action.buffering.request]:
        wait = statement(f"http-request wait-for-body time {LONGEST} at-least {_WHOLE_BODY}")
        yield on.per_route.restrict(wait, held, "held")


BUFFERING = Contributor(settings=_settings, admission=_admission)
