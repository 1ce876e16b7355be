"""Timeouts of clients and routes.

Envoy has one idle clock per request: it runs while the client sends the body, while the endpoint prepares the response,
and within the response. It has the longest of these times; a try has clocks of its own for the response.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, habit
from lbgen.engines.document import Commented
from lbgen.engines.envoy.protobuf import duration
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute, http_routes
from lbgen.plan.model import ClientTimeouts, Forward, Listener, Plan, Route, Timeouts

if TYPE_CHECKING:
    from lbgen.engines.document import Data

MOST_HEADERS = 1000  # lines of a head, as of HAProxy; by default a response with over 100 is a 502
_LEAST_CLOSE, _CLOSE = 50, 1000  # ms; the latter is Envoy's own, as of the next
_LEAST_DRAIN, _DRAIN = 100, 5000
_SLACK = 500  # ms for the time between tries


def stream_idle_timeout(times: ClientTimeouts) -> int:
    """The idle timeout of requests whose route has none of its own; its clock starts at the first byte of a head."""
    return 0 if 0 in (times.header, times.body) else max(times.header, times.body)


def compute_idle_timeout(times: Timeouts, client: ClientTimeouts, tries: int) -> int:
    """The idle timeout of a route's requests (ms, 0 = none): it runs through all tries."""
    found = [times.response, times.idle, client.body]
    if tries > 1:
        found += [times.connect, tries * (times.connect + times.response)]
    return 0 if 0 in found else max(found) + (_SLACK if tries > 1 else 0)


def find_idle_timeout(forward: Forward, listener: Listener) -> int:
    """`compute_idle_timeout` of the requests of a listener that `forward` takes."""
    return compute_idle_timeout(forward.timeouts, listener.timeouts, _count_tries(forward))


def _count_tries(forward: Forward) -> int:
    return 1 if forward.retries is None else 1 + forward.retries.max


def build_try_timeouts(times: Timeouts, idle: int) -> dict[str, Data]:
    """The fields of a retry policy for the times of a try that are shorter than the request's `idle` timeout."""
    found: dict[str, Data] = {}
    silence = max(times.idle, times.response) if times.idle and times.response else 0
    if silence and silence != idle:
        found["per_try_idle_timeout"] = duration(silence)
    if times.response and times.response not in (silence, idle):
        # The route's own timeout would include the body; that of a try ends with the response head.
        found["per_try_timeout"] = duration(times.response)
    return found


def build_client_timeouts(listener: Listener, routes: Iterable[Route]) -> dict[str, Data]:
    """The fields of a connection manager for the times of a kept connection, of a head, within a body, and of the end
    of an HTTP/2 response that waits for its client.

    A kept connection ends after idle_timeout, drain_timeout and delayed_close_timeout, so these count down together.
    Nothing but a complete head starts the idle clock anew, so it bounds the head as well where it has the same time,
    and a timer less runs. Nothing at all starts the last clock anew, which without a time of its own has that of the
    idle clock: it gets the longest idle time of the routes."""
    times = listener.timeouts
    close, drain = _scale(times, 20, _LEAST_CLOSE, _CLOSE), _scale(times, 10, _LEAST_DRAIN, _DRAIN)
    idle = stream_idle_timeout(times)
    kept = max(times.keepalive - drain - close, times.keepalive // 2)
    fields: dict[str, Data] = {
        "common_http_protocol_options": Commented(
            "A kept connection has this time, then drain_timeout and delayed_close_timeout.",
            {
                "idle_timeout": duration(kept),
                "max_headers_count": MOST_HEADERS,
                **({} if listener.underscores else {"headers_with_underscores_action": "DROP_HEADER"}),
            },
        )
    }
    fields["drain_timeout"] = duration(drain)  # also where they are Envoy's own: `verify` shortens numbers alone
    fields["delayed_close_timeout"] = duration(close)
    if times.header != idle:
        fields["request_headers_timeout"] = duration(times.header)
    fields["stream_idle_timeout"] = duration(idle)
    silences = [idle, *(route.action.timeouts.idle for route in routes if isinstance(route.action, Forward))]
    longest = 0 if 0 in silences else max(silences)
    if listener.http2 and longest != idle:
        fields["stream_flush_timeout"] = duration(longest)
    return fields


def _scale(times: ClientTimeouts, part: int, least: int, usual: int) -> int:
    """Envoy's own time, or that part of the listener's shortest time: Envoy also waits before each end by a timeout,
    and reads nothing meanwhile."""
    return max(least, min([usual, *(each // part for each in (times.keepalive, times.header, times.body) if each)]))


def _manager(on: HttpListener) -> dict[str, Data]:
    return build_client_timeouts(on.listener, on.routes)


def _route(at: HttpRoute) -> dict[str, Data]:
    if at.forward is None:
        return {}
    idle, request = find_idle_timeout(at.forward, at.on.listener), at.forward.timeouts.request
    action: dict[str, Data] = {}
    if idle != stream_idle_timeout(at.on.listener.timeouts):
        action["idle_timeout"] = duration(idle)
    if request and not at.tunnel:
        action["max_stream_duration"] = {"max_stream_duration": duration(request)}
    return {"route": action}


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route, listeners in http_routes(plan):
        if isinstance(route.action, Forward):
            yield from _route_objections(route, route.action, listeners)


def _route_objections(route: Route, forward: Forward, listeners: Iterable[Listener]) -> Iterator[Objection]:
    times = forward.timeouts
    if times.idle and not 0 < times.response <= times.idle:
        held = f"the response time of {times.response} ms" if times.response else "that, without a limit,"
        note = f"Envoy has one clock for the wait for a response and for silence within it: {held} holds for both"
        shows: dict[str, str | tuple[str, ...]] = {"timeouts.idle.body": "time"}
        yield Objection(approximate(note, shows), f"{route.field}.timeouts.idle", "timeouts.idle")
    longest = [(each.timeouts, find_idle_timeout(forward, each)) for each in listeners]
    uploads = {time for client, time in longest if time != client.body}
    if uploads:
        note = f"a pause within a request's body ends {_when(uploads)}, the longest time of the route"
        paused: dict[str, str | tuple[str, ...]] = {
            "listener.timeouts.body": ("time", "status 200", "open"),
            "listener.timeouts.stuck_endpoint": "time",
        }
        yield Objection(habit(note, paused), f"{route.field}.timeouts.idle", "listener.timeouts")
    tunnels = {time for _, time in longest if time != times.idle}
    if tunnels:
        note = f"a silent tunnel ends {_when(tunnels)}, the longest time of the route"
        silent: dict[str, str | tuple[str, ...]] = {"timeouts.idle.tunnel_end": "time"}
        yield Objection(habit(note, silent), f"{route.field}.timeouts.idle", "timeouts.idle")


def _when(times: set[int]) -> str:
    return "never" if 0 in times else f"after {max(times)} ms"


CLIENT_TIMEOUTS = Contributor(manager=_manager)
TIMEOUTS = Contributor(
    spares_tunnels=lambda forward: bool(forward.timeouts.request), route=_route, objections=_objections
)
