"""Cases of times of clients and whole requests: heads and bodies that stop or go on too slowly, idle connections, and a
route's `timeouts.request`, which ends a request, its body and all tries included, with 504 while nothing was answered
and by a cut afterwards; a client's silence is ended by `client_body` where that is over first."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.corpus import NOWHERE
from lbgen.conformance.http1_client import serialize
from lbgen.conformance.transport import host_of
from lbgen.conformance.verify.cases import (
    BODY,
    HANG,
    Phase,
    ScheduledCase,
    fault_case,
    route_requests,
    script_case,
    time_window,
    tries,
    with_headers,
)
from lbgen.plan.model import Forward, Listener, Plan, Route
from lbgen.plan.policy import RetryCause
from lbgen.plan.request import Request

_HEAD, _BODY, _KEPT = "listener.timeouts.head", "listener.timeouts.body", "listener.timeouts.kept"
_WHOLE = "listener.timeouts.whole"  # an engine with one time for all of a request
_FEATURES = (BODY, "timeouts.request")
_LENGTH = 10  # bytes that an upload announces
_GAPS = 12  # pauses of a slow upload until its request's time is over


def client_timeout_cases(plan: Plan, listener: Listener, client: str) -> Iterator[ScheduledCase]:
    """Each of them is ended in time. How is one thing (408, or just closed), when another: a verdict about the first
    excuses nothing of the second."""
    times = listener.timeouts
    found = next(_may_upload(plan, listener, client), None)
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


def _may_upload(plan: Plan, listener: Listener, client: str) -> Iterator[Request]:
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


def request_timeout_cases(plan: Plan, route: Route, action: Forward, hit: Request) -> Iterator[ScheduledCase]:
    """Cases of one route; none where its requests may take any time."""
    times = action.timeouts
    if not times.request:
        return
    within = time_window(times.request)
    tried = tries(action.retries, RetryCause.TIMEOUT, hit.method)
    if not times.response or times.request < tried * times.response:
        yield fault_case("6.request.head", hit, route, HANG, fault=504, within_ms=within)
    tried = tries(action.retries, RetryCause.CONNECT_FAILURE, hit.method)
    if not times.connect or times.request < tried * times.connect:
        yield replace(fault_case("6.request.connect", hit, route, fault=504, within_ms=within), phase=Phase.DROPPED)
    gap = max(20, min(times.idle or 200, 200) // 2)
    drip = {"mode": "drip", "wait_ms": gap, "count": 2 + 2 * times.request // gap}
    yield fault_case("6.request.body", hit, route, drip, cut=True, within_ms=within)
    yield from _uploads(route, hit, times.request, plan.listener(hit.listener).timeouts.body)


def _uploads(route: Route, hit: Request, whole: int, silence: int) -> Iterator[ScheduledCase]:
    """Uploads that stop, and that go on too slowly. `silence`: how long the listener lets a client be silent."""
    ended, seconds = Expect(status=504, within_ms=time_window(whole)), time_window(whole)[1] / 1000
    expect = ended if not silence or whole < silence else Expect(dropped=True, within_ms=time_window(silence))
    features = _FEATURES if expect is ended else (*_FEATURES, "listener.timeouts.body")
    stalled = (half_body(hit), seconds)
    yield ScheduledCase(_sent("6.request.stalled", hit, route, expect, features, stalled))
    pause = whole / 1000 / _GAPS
    if not silence or pause * 1500 < silence:
        drops = tuple(part for _ in range(2 * _GAPS) for part in (pause, b"x"))
        head = half_body(hit, 3 * _GAPS)
        yield ScheduledCase(_sent("6.request.upload", hit, route, ended, _FEATURES, (head, *drops)))


def _sent(
    clause: str,
    hit: Request,
    route: Route,
    expect: Expect,
    features: tuple[str, ...],
    sent: tuple[bytes | float, ...],
) -> Case:
    longest = sum(part for part in sent if isinstance(part, float))
    return Case("", clause, hit, expect, features, routes=(route.name,), send=sent, timeout=longest + 2)


def half_body(hit: Request, length: int = _LENGTH) -> bytes:
    """A request whose body of `length` bytes has begun."""
    return serialize(replace(with_headers(hit, ("Content-Length", str(length))), body=b"abc"))
