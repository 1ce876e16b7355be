"""A plan -> what must happen when endpoints fail, hang or vanish, and how long it takes: cases for a running engine."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil, log
from typing import TYPE_CHECKING, Any

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.corpus import NOWHERE
from lbgen.conformance.probe import wire
from lbgen.conformance.scripts.topology import LARGE
from lbgen.conformance.verify import layer4, policies
from lbgen.conformance.verify.cases import (
    SERVER,
    Phase,
    Planned,
    around,
    hits,
    http2_asked,
    named,
    own_client,
    scripted,
    watched,
    with_headers,
)
from lbgen.conformance.wires import host_of, unverified
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Mode, PoolProtocol
from lbgen.plan.policy import IDEMPOTENT, SENT_AGAIN, KeyKind, RetryCause
from lbgen.plan.simulate import Request, simulate
from lbgen.runtime.standin import CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener, Plan, Route, Timeouts
    from lbgen.plan.policy import Retries

_WAITS, _BODY, _TUNNEL = "timeouts.idle.waits", "timeouts.idle.body", "timeouts.idle.tunnel"
_ALIKE = "route.retries.alike"  # causes that an engine cannot tell apart
_NO_RETRY = f"{Feature.STATUSES}.kept_no_retry"  # an endpoint that closes where others are tried again
_OWN = 500  # a status that nobody retries unless asked
_NEVER = 1e-7  # chance that so many requests do not meet a share
_MOST_DRAWN = 1_600  # requests, enough for 1 %
_HANG = {"mode": "hang", "wait_ms": 60_000}


def planned(plan: Plan, client: str) -> tuple[Planned, ...]:
    """Every fault case of `plan`, numbered within its clause."""
    counts: dict[str, int] = {}
    found = []
    for one in (*_every(plan, client), *policies.planned(plan, client)):
        name = " ".join((one.case.clause, *one.case.routes))
        counts[name] = number = counts.get(name, 0) + 1
        listener = plan.listener(one.case.request.listener)
        via = unverified(listener, one.case.request)
        features = (*one.case.features, *named(listener, one.case.request))
        found.append(replace(one, case=replace(one.case, id=f"{name}/{number}", asked=via, features=features)))
    return tuple(found)


def _every(plan: Plan, client: str) -> Iterator[Planned]:
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            yield from layer4.planned(plan, listener, client)
            continue
        yield from _client_times(plan, listener, client)
        for route, hit in hits(plan, listener, client):
            if isinstance(route.action, Forward) and not watched(plan, route.action):
                yield from _apart(plan, route, _route(plan, route, route.action, hit))


def _apart(plan: Plan, route: Route, found: Iterator[Planned]) -> Iterator[Planned]:
    """Cases of a route whose requests are counted: from a client each, or one after the other where all count
    together. Nothing of a route whose rate they would use up."""
    rate, most = route.rate_limit, route.concurrency
    if rate is not None and rate.key.kind is KeyKind.ROUTE:
        return
    keys = [x.key.kind for x in (rate, most) if x is not None]
    pools = [plan.pool(target.pool) for target in getattr(route.action, "targets", ())]
    crowded = any(pool.max_per_endpoint is not None for pool in pools)
    shared = any(pool.protocol is not PoolProtocol.HTTP1 for pool in pools)  # what ends a connection ends its streams
    for number, one in enumerate(found):
        case = one.case
        if KeyKind.CLIENT_IP in keys and not case.request.client.startswith("127."):
            listener = plan.listener(case.request.listener)
            client = own_client(50_000 + 1_000 * route.index + number, listener.access, route.access)
            if client is None:
                continue
            asked = replace(case.request, client=client)
            params = {**case.params, "request": replace(case.params["request"], client=client)} if case.params else {}
            one = replace(one, case=replace(case, request=asked, params=params))
        elif KeyKind.CLIENT_IP in keys:
            return
        if shared:
            one = replace(one, case=replace(case, features=(*case.features, SERVER)))
        if KeyKind.ROUTE in keys or crowded or shared:
            if shared and one.phase in (Phase.REFUSED, Phase.DROPPED, Phase.FOREIGN) and not one.pool:
                yield one
                continue
            if one.phase not in (Phase.CALM, Phase.HEAVY):
                continue
            one = replace(one, phase=Phase.ALONE)
        yield one


def tries(retries: Retries | None, cause: RetryCause | int, method: str) -> int:
    """How often a request reaches endpoints while that cause persists."""
    if retries is None:
        return 1
    listed = cause in retries.statuses if isinstance(cause, int) else cause in retries.causes
    repeatable = retries.all_methods or method in IDEMPOTENT or cause is RetryCause.CONNECT_FAILURE
    return 1 + retries.max if listed and repeatable else 1


def _route(plan: Plan, route: Route, action: Forward, hit: Request) -> Iterator[Planned]:
    if sum(target.weight > 0 for target in action.targets) > 1:
        yield from _split(route, action, hit)
    for method in [hit.method] if hit.method != "GET" else ["GET", "POST"]:
        asked = replace(hit, method=method)
        if simulate(plan, asked).route == route.name:
            yield from _failing(route, action, asked)
            yield from _unreachable(route, action, asked)
            yield from _mistaken(plan, route, action, asked)
    if hit.method != "HEAD":
        yield from _slow(route, action, hit)
    times = action.timeouts
    if hit.method == "GET" and times.idle and not http2_asked(plan, hit):
        params = {"request": hit, "within_ms": around(times.idle)}
        yield scripted("6.idle.tunnel", "tunnel_idle", hit, params, (_TUNNEL,), route.name)
    if hit.method == "GET" and times.idle and not hit.client.startswith("127."):
        yield from _stuck(plan, route, times.idle, hit)


def _stuck(plan: Plan, route: Route, idle: int, hit: Request) -> Iterator[Planned]:
    """Clients and endpoints that stop reading. Not on loopback, whose buffers take too much."""
    large = (CONTROL, json.dumps({"mode": "fixed", "body": "x", "size": LARGE}))
    params = {"request": with_headers(hit, large), "within_ms": around(idle), "early_ms": idle * 0.65}
    features = (_BODY, "listener.timeouts.reading")
    one = scripted("6.idle.download", "deaf_client", hit, params, features, route.name)
    yield replace(one, phase=Phase.HEAVY)
    deaf = with_headers(hit, (CONTROL, json.dumps({"mode": "deaf"})))
    if http2_asked(plan, hit):
        return  # streams stop, connections go on
    if simulate(plan, replace(deaf, method="POST")).route == route.name and route.max_body is None:
        params = {"request": deaf, "within_ms": around(idle)}
        one = scripted("6.idle.upload", "stuck_upload", hit, params, (_BODY, "timeouts.idle.upload"), route.name)
        yield replace(one, phase=Phase.HEAVY)


def _split(route: Route, action: Forward, hit: Request) -> Iterator[Planned]:
    """Each share of a split by itself: engines may write a route's times out for each."""
    times, total = action.timeouts, sum(target.weight for target in action.targets)
    for target in action.targets:
        if not target.weight:
            continue
        most = min(_MOST_DRAWN, ceil(log(_NEVER) / log(1 - target.weight / total)))
        for clause, phase, time, cause in (
            ("6.response", Phase.HUNG, times.response, RetryCause.TIMEOUT),
            ("6.connect", Phase.DROPPED, times.connect, RetryCause.CONNECT_FAILURE),
        ):
            count = tries(action.retries, cause, hit.method)
            if not time or (times.request and count * time >= times.request):
                continue
            params = {"request": hit, "pool": target.pool, "most": most, "within_ms": around(count * time, count)}
            one = scripted(clause, "split_fails", hit, params, (_WAITS, _ALIKE), route.name)
            yield replace(one, phase=phase, pool=target.pool)


def _case(clause: str, request: Request, route: Route, *steps: dict[str, Any], **expect: Any) -> Planned:  # noqa: ANN401  # as `Expect` has it
    """A request that the endpoints treat as `steps` say, one step a try. The clause tells what may excuse it."""
    excuses = {
        "6.response": (_WAITS, _ALIKE),
        "6.idle": (_BODY,),
        "6.request": (_WAITS, _BODY, str(Feature.TIMEOUT_REQUEST)),
    }
    excuses["6.retries"] = (_WAITS, str(Feature.RETRIES))
    excuses |= dict.fromkeys(("5.close", "5.reset", "6.connect"), (_ALIKE,))
    features = next((found for start, found in excuses.items() if clause.startswith(start)), ())
    longest = expect.get("within_ms", (0, 2000))[1] / 1000
    case = Case("", clause, request, Expect(**expect), features, routes=(route.name,), steps=steps, timeout=longest + 2)
    return Planned(case)


def _failing(route: Route, action: Forward, asked: Request) -> Iterator[Planned]:
    """Endpoints that close, reset, hang, or answer with an error of their own."""
    times, retries = action.timeouts, action.retries
    count = tries(retries, RetryCause.RESET, asked.method)
    clause = "5.{}" if count == 1 else "6.retries.{}"
    for mode in ("close", "reset"):
        one = _case(clause.format(mode), asked, route, {"mode": mode}, fault=502, tries=count)
        if retries is not None and count == 1:
            one = replace(one, case=replace(one.case, features=(*one.case.features, _NO_RETRY)))
        yield one
    if count > 1:
        yield _case("6.retries.recovers", asked, route, {"mode": "close"}, {"mode": "json"}, status=200, tries=2)
    count = tries(retries, RetryCause.TIMEOUT, asked.method)
    total = count * times.response
    if times.response and (not times.request or total < times.request):
        clause = "6.response" if count == 1 else "6.retries.timeout"
        yield _case(clause, asked, route, _HANG, fault=504, tries=count, within_ms=around(total, count))
    if count > 1 and not action.buffering.request and (route.max_body is None or route.max_body > SENT_AGAIN):
        yield from _long(route, times, asked)
    for status in dict.fromkeys((_OWN, *(retries.statuses if retries is not None else ()))):
        own = {"mode": "fixed", "status": status, "body": "its own\n"}
        count = tries(retries, status, asked.method)
        clause = "5.own-status" if count == 1 else "6.retries.status"
        yield _case(clause, asked, route, own, status=status, tries=count)


def _long(route: Route, times: Timeouts, asked: Request) -> Iterator[Planned]:
    """Bodies that are too long to be sent again."""
    if times.response and (not times.request or times.response < times.request):
        asked = replace(asked, body=b"x" * (SENT_AGAIN + 1))
        late = around(times.response)
        yield _case("6.retries.long-body", asked, route, _HANG, fault=504, tries=1, within_ms=late)


def _unreachable(route: Route, action: Forward, asked: Request) -> Iterator[Planned]:
    """Endpoints that refuse connections, or do not answer to them."""
    times = action.timeouts
    count = tries(action.retries, RetryCause.CONNECT_FAILURE, asked.method)
    total = count * times.connect
    one = _case("5.refused", asked, route, fault=502, within_ms=(0, 1000))
    yield replace(one, phase=Phase.REFUSED)
    if times.connect and (not times.request or total < times.request):
        one = _case("6.connect", asked, route, fault=504, within_ms=around(total, count))
        yield replace(one, phase=Phase.DROPPED)


def _mistaken(plan: Plan, route: Route, action: Forward, asked: Request) -> Iterator[Planned]:
    """Endpoints that show the certificate of another name."""
    tls = [plan.pool(target.pool).tls for target in action.targets if target.weight]
    if all(x is not None and x.verify for x in tls):
        yield replace(_case("5.tls.endpoint", asked, route, fault=502), phase=Phase.FOREIGN)
    elif all(x is not None and not x.verify for x in tls):
        yield replace(_case("5.tls.endpoint", asked, route), phase=Phase.FOREIGN)


def _slow(route: Route, action: Forward, hit: Request) -> Iterator[Planned]:
    """Bodies that stop, and answers that take longer than the whole request may."""
    times = action.timeouts
    if times.idle and (not times.request or times.idle < times.request):
        stall = {"mode": "stall_body", "wait_ms": 60_000}
        yield _case("6.idle.body", hit, route, stall, cut=True, within_ms=around(times.idle))
    if times.request:
        if not times.response or times.request < times.response:
            yield _case("6.request.head", hit, route, _HANG, fault=504, within_ms=around(times.request))
        gap = max(20, min(times.idle or 200, 200) // 2)
        drip = {"mode": "drip", "wait_ms": gap, "count": 2 + 2 * times.request // gap}
        yield _case("6.request.body", hit, route, drip, cut=True, within_ms=around(times.request))


def _client_times(plan: Plan, listener: Listener, client: str) -> Iterator[Planned]:
    """A slow head, a silent body and an idle connection are ended in time. How is one thing (408, or just closed), when
    another: a verdict about the first excuses nothing of the second."""
    forwards = ((r.action, x) for r, x in hits(plan, listener, client) if isinstance(r.action, Forward))
    action, found = next(forwards, (None, None))
    idle = 0 if action is None else action.timeouts.idle
    host = None if found is None else host_of(found)
    request = Request("GET", "/", (("Host", host or NOWHERE),), listener.name, client)
    times = listener.timeouts
    if times.keepalive:
        params = {"request": request, "within_ms": around(times.keepalive)}
        yield scripted("6.client.keepalive", "kept_idle", request, params, ())
    slow = [("header", times.header, request, f"GET / HTTP/1.1\r\nHost: {host or NOWHERE}\r\n".encode())]
    if found is not None:
        half = replace(found, headers=(*found.headers, ("Content-Length", "10")), body=b"abc")
        slow.append(("body", times.body, replace(request, client=found.client), wire(half)))
    for what, time, asked, sent in slow:
        if not time:
            continue
        # A body that stops may also be silent for too long by the route's idle time: the shorter of the two counts.
        least = min(time, idle or time) if what == "body" else time
        within = around(least)[0], around(time)[1]
        seconds = within[1] / 1000
        silence = ("listener.timeouts.silence",) if what == "body" else ()
        features = ("listener.timeouts.head",) if what == "header" else ("listener.timeouts.body", *silence)
        yield Planned(
            Case(
                "",
                f"6.client.{what}",
                asked,
                Expect(dropped=True),
                features,
                send=(sent, seconds),
                timeout=seconds + 2,
            )
        )
        excused = features if times.header != times.body else silence
        params = {"request": asked, "sent": sent, "within_ms": within, "pause": seconds / 8 if what == "header" else 0}
        yield scripted(f"6.client.{what}.time", "slow_client", asked, params, excused)
