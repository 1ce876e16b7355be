"""Cases of a listener's timeouts: clients that are slow with a head, silent within a body, or idle."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.corpus import NOWHERE
from lbgen.conformance.transport import host_of
from lbgen.conformance.verify.cases import ScheduledCase, route_requests, script_case, time_window
from lbgen.conformance.verify.request_timeouts import half_body
from lbgen.plan.model import Forward, Listener, Plan
from lbgen.plan.request import Request

_HEAD, _BODY, _KEPT = "listener.timeouts.head", "listener.timeouts.body", "listener.timeouts.kept"
_WHOLE = "listener.timeouts.whole"  # an engine with one time for all of a request


def client_timeout_cases(plan: Plan, listener: Listener, client: str) -> Iterator[ScheduledCase]:
    """Each of them is ended in time. How is one thing (408, or just closed), when another: a verdict about the first
    excuses nothing of the second."""
    times = listener.timeouts
    found = next(_uploads(plan, listener, client), None)
    host = (None if found is None else host_of(found)) or NOWHERE
    request = Request("GET", "/", (("Host", host),), listener.name, client)
    if times.keepalive:
        params = {"request": request, "within_ms": time_window(times.keepalive)}
        yield script_case("6.client.keepalive", "idle_connection_ends", request, params, (_KEPT,))
    alike = times.header == times.body  # then no verdict excuses when a head is ended
    if times.header:
        sent = f"GET / HTTP/1.1\r\nHost: {host}\r\n".encode()
        when: tuple[str, ...] = (_WHOLE,) if alike else (_HEAD, _WHOLE)
        yield from _slow("6.client.header", request, sent, times.header, (_HEAD, _WHOLE), when, drips=True)
    if times.body and found is not None:
        yield from _slow("6.client.body", found, half_body(found), times.body, (_BODY, _WHOLE), (_BODY, _WHOLE))


def _uploads(plan: Plan, listener: Listener, client: str) -> Iterator[Request]:
    """Requests that may take longer than the listener lets a client be silent."""
    for route, hit in route_requests(plan, listener, client):
        if isinstance(route.action, Forward):
            whole = route.action.timeouts.request
            if not whole or whole > listener.timeouts.body:
                yield hit


def _slow(
    clause: str,
    request: Request,
    sent: bytes,
    time: int,
    how: tuple[str, ...],
    when: tuple[str, ...],
    *,
    drips: bool = False,
) -> Iterator[ScheduledCase]:
    """`sent`, and then nothing, or (`drips`) a header now and then."""
    within = time_window(time)
    seconds = within[1] / 1000
    expect = Expect(dropped=True)
    yield ScheduledCase(Case("", clause, request, expect, how, send=(sent, seconds), timeout=seconds + 2))
    params = {"request": request, "sent": sent, "within_ms": within, "pause": seconds / 8 if drips else 0}
    yield script_case(f"{clause}.time", "slow_client", request, params, when)
