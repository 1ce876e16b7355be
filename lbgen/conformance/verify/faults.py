"""Cases of endpoints that fail, hang or vanish: the answer, and how long it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from math import ceil, log

from msgspec.structs import replace

from lbgen.conformance.scripts.topology_timeouts import LARGE
from lbgen.conformance.transport import without_verification
from lbgen.conformance.verify import l4, timeouts, traffic
from lbgen.conformance.verify.cases import (
    ALIKE,
    BODY,
    HANG,
    ONE_TIMER,
    SERVER,
    TUNNEL,
    Phase,
    ScheduledCase,
    alone_case,
    distinct_client,
    fault_case,
    has_health_checks,
    has_http2_upstream,
    may_try_again,
    route_requests,
    script_case,
    server_name_excuses,
    time_window,
    tries,
    with_headers,
)
from lbgen.conformance.verify.coverage import named
from lbgen.conformance.verify.forward_auth import forward_auth_cases, serves_alone
from lbgen.conformance.verify.pools import kept_case
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Forward, Mode, Plan, Pool, PoolProtocol, Route, Timeouts
from lbgen.plan.policy import ActiveHealth, KeyKind, RetryCause
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate
from lbgen.runtime.standins.http1 import CONTROL

_ONE_ATTEMPT = "route.forward.one_attempt"
_EACH_ONCE = "route.retries.each_once"
_NO_RETRY = "statuses.failures.kept_no_retry"  # an endpoint that closes where others are tried again
_FAILED_TLS = "statuses.failures.tls"
_OWN = 500  # a status that nobody retries unless asked
_NEVER = 1e-7  # chance that so many requests do not meet a share
_TOLD = 0.55  # of a time: what ends before it is another time
_WITHOUT_ENDPOINTS = (Phase.HUNG, Phase.REFUSED, Phase.DROPPED, Phase.FOREIGN)
_MOST_DRAWN = 1_600  # requests, enough for 1 %


def fault_cases(plan: Plan, client: str) -> tuple[ScheduledCase, ...]:
    """Every fault case of `plan`, numbered within its clause."""
    counts: dict[str, int] = {}
    found = []
    cases = (
        *_every(plan, client),
        *traffic.everyday_cases(plan, client),
        *traffic.policy_cases(plan, client),
    )
    for one in cases:
        name = " ".join((one.case.clause, *one.case.routes))
        counts[name] = number = counts.get(name, 0) + 1
        listener = plan.listener(one.case.request.listener)
        transport = without_verification(listener, one.case.request)
        features = (*one.case.features, *server_name_excuses(listener, one.case.request))
        found.append(
            replace(one, case=replace(one.case, id=f"{name}/{number}", transport=transport, features=features))
        )
    return tuple(found)


def _every(plan: Plan, client: str) -> Iterator[ScheduledCase]:
    checked: set[str] = set()  # routes to pools with health checks, each of which is tried once
    asked: set[str] = set()  # pools of services, the same
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            yield from l4.l4_cases(plan, listener, client)
            continue
        yield from timeouts.client_timeout_cases(plan, listener, client)
        for route, hit in route_requests(plan, listener, client):
            yield from forward_auth_cases(plan, route, hit)
            if isinstance(route.auth, ForwardAuth) and route.auth.pool not in asked:
                asked.add(route.auth.pool)
                yield kept_case(plan.pool(route.auth.pool), hit, route)
            if not isinstance(route.action, Forward):
                continue
            if not has_health_checks(plan, route.action):
                found = _route(plan, route, route.action, hit)
                if _is_crowded(plan, route):
                    pools = [plan.pool(target.pool) for target in route.action.targets if target.weight]
                    found = chain(found, _unreachable_pools(pools, route, route.action, hit))
                yield from (serves_alone(one, route) for one in _apart(plan, route, found))
            elif route.name not in checked:
                checked.add(route.name)
                found = _of_checked_pools(plan, route, route.action, hit, _route(plan, route, route.action, hit))
                yield from _apart(plan, route, found)


def _apart(plan: Plan, route: Route, found: Iterator[ScheduledCase]) -> Iterator[ScheduledCase]:
    """Cases of a route whose requests are counted: from a client each, or one after the other where all count
    together. Nothing of a route whose rate they would use up."""
    rate, most = route.rate_limit, route.concurrency
    if rate is not None and rate.key.kind is KeyKind.ROUTE:
        return
    keys = [x.key.kind for x in (rate, most) if x is not None]
    pools = [plan.pool(target.pool) for target in getattr(route.action, "targets", ())]
    crowded = _is_crowded(plan, route)
    shared = any(pool.protocol is not PoolProtocol.HTTP1 for pool in pools)  # what ends a connection ends its streams
    for number, one in enumerate(found):
        case = one.case
        if KeyKind.CLIENT_IP in keys and not case.request.client.startswith("127."):
            listener = plan.listener(case.request.listener)
            client = distinct_client(50_000 + 1_000 * route.index + number, listener.access, route.access)
            if client is None:
                continue
            asked = replace(case.request, client=client)
            params = {**case.params, "request": replace(case.params["request"], client=client)} if case.params else {}
            one = replace(one, case=replace(case, request=asked, params=params))
        elif KeyKind.CLIENT_IP in keys:
            return
        lines = tuple((x.key.name, f"apart-{number}") for x in (rate, most) if x and x.key.kind is KeyKind.HEADER)
        if lines:  # some engines count requests without the header together
            case = one.case
            params = {**case.params, "request": with_headers(case.params["request"], *lines)} if case.params else {}
            one = replace(one, case=replace(case, request=with_headers(case.request, *lines), params=params))
        if shared:
            one = replace(one, case=replace(one.case, features=(*case.features, SERVER)))
        if crowded or shared:
            if shared and one.phase in (Phase.REFUSED, Phase.DROPPED, Phase.FOREIGN) and not one.pool:
                yield one
                continue
            if one.phase not in (Phase.CALM, Phase.HEAVY, Phase.ALONE):
                continue
            one = replace(one, phase=Phase.ALONE)
        yield one


def _is_crowded(plan: Plan, route: Route) -> bool:
    """Whether its requests count together, however many clients send them."""
    pools = [plan.pool(target.pool) for target in getattr(route.action, "targets", ())]
    most = route.concurrency
    return any(x.max_per_endpoint is not None for x in pools) or (most is not None and most.key.kind is KeyKind.ROUTE)


def _route(plan: Plan, route: Route, action: Forward, hit: Request) -> Iterator[ScheduledCase]:
    pools = [plan.pool(target.pool) for target in action.targets if target.weight]
    fewest = min(sum(endpoint.weight > 0 for endpoint in pool.endpoints) for pool in pools)
    if action.retries is not None and action.retries.max >= fewest:  # more tries than endpoints
        for one in _faults(plan, route, action, hit):
            yield replace(one, case=replace(one.case, features=(*one.case.features, _EACH_ONCE)))
    else:
        yield from _faults(plan, route, action, hit)


def _faults(plan: Plan, route: Route, action: Forward, hit: Request) -> Iterator[ScheduledCase]:
    if sum(target.weight > 0 for target in action.targets) > 1:
        yield from _split(route, action, hit)
    for method in [hit.method] if hit.method != "GET" else ["GET", "POST"]:
        asked = replace(hit, method=method)
        if simulate(plan, asked).route == route.name:
            yield from _failing(plan, route, action, asked)
            yield from _unreachable(route, action, asked)
            yield from _mistaken(plan, route, action, asked)
    if hit.method != "HEAD":
        yield from _silent(route, action, hit)
        yield from timeouts.request_timeout_cases(plan, route, action, hit)
    times = action.timeouts
    if hit.method == "GET" and times.idle and not has_http2_upstream(plan, hit):
        params = {"request": hit, "within_ms": time_window(times.idle)}
        yield script_case("6.idle.tunnel", "tunnel_idle", hit, params, TUNNEL, route.name)
    if hit.method == "GET" and times.idle and not hit.client.startswith("127."):
        yield from _stuck(plan, route, times, hit)


def _stuck(plan: Plan, route: Route, times: Timeouts, hit: Request) -> Iterator[ScheduledCase]:
    """Clients and endpoints that stop reading. Not on loopback, whose buffers take too much."""
    first = times.request if 0 < times.request < times.idle else times.idle
    ends = (BODY,) if first == times.idle else (BODY, "timeouts.request")
    large = (CONTROL, json.dumps({"mode": "fixed", "body": "x", "size": LARGE}))
    params = {"request": with_headers(hit, large), "within_ms": time_window(first)}
    if first == times.idle:  # the whole body takes its time
        params["early_ms"] = first * 0.65
    features = (*ends, "listener.timeouts.reading")
    yield script_case("6.idle.download", "deaf_client", hit, params, features, route.name, phase=Phase.HEAVY)
    deaf = with_headers(hit, (CONTROL, json.dumps({"mode": "deaf"})))
    if has_http2_upstream(plan, hit):
        return  # streams stop, connections go on
    silence = plan.listener(hit.listener).timeouts.body  # this time or the idle time ends it
    if silence and simulate(plan, replace(deaf, method="POST")).route == route.name and route.max_body is None:
        last = first if first != times.idle else max(first, silence)
        params = {"request": deaf, "within_ms": (time_window(min(first, silence))[0], time_window(last)[1])}
        features = (*ends, "listener.timeouts.stuck_endpoint")
        yield script_case("6.idle.upload", "stuck_upload", hit, params, features, route.name, phase=Phase.HEAVY)


def _split(route: Route, action: Forward, hit: Request) -> Iterator[ScheduledCase]:
    """Each share of a split by itself: engines may write a route's times out for each."""
    times, total = action.timeouts, sum(target.weight for target in action.targets)
    alike = (ALIKE,) if may_try_again(route) else ()
    for target in action.targets:
        if not target.weight:
            continue
        most = min(_MOST_DRAWN, ceil(log(_NEVER) / log(1 - target.weight / total)))
        for clause, phase, time, cause, excuses in (
            ("6.response", Phase.HUNG, times.response, RetryCause.TIMEOUT, ONE_TIMER),
            ("6.connect", Phase.DROPPED, times.connect, RetryCause.CONNECT_FAILURE, ()),
        ):
            count = tries(action.retries, cause, hit.method)
            if not time or (times.request and count * time >= times.request):
                continue
            params = {"request": hit, "pool": target.pool, "most": most, "within_ms": time_window(count * time, count)}
            one = script_case(clause, "split_fails", hit, params, (*alike, *excuses), route.name)
            yield replace(one, phase=phase, pool=target.pool)


def _failing(plan: Plan, route: Route, action: Forward, asked: Request) -> Iterator[ScheduledCase]:
    """Endpoints that close, reset, hang, or answer with an error of their own."""
    times, retries = action.timeouts, action.retries
    count = tries(retries, RetryCause.RESET, asked.method)
    clause = "5.{}" if count == 1 else "6.retries.{}"
    for mode in ("close", "reset"):
        one = fault_case(clause.format(mode), asked, route, {"mode": mode}, fault=502, tries=count)
        # A connection that has been used before may end without an answer.
        yield replace(one, case=replace(one.case, features=(*one.case.features, _NO_RETRY, _ONE_ATTEMPT)))
    if count > 1:
        yield fault_case("6.retries.recovers", asked, route, {"mode": "close"}, {"mode": "json"}, status=200, tries=2)
    count = tries(retries, RetryCause.TIMEOUT, asked.method)
    total = count * times.response
    if times.response and (not times.request or total < times.request):
        clause = "6.response" if count == 1 else "6.retries.timeout"
        yield fault_case(clause, asked, route, HANG, fault=504, tries=count, within_ms=time_window(total, count))
    if retries is not None and retries.budget is not None and times.response and not times.request and count > 1:
        params = {"request": asked, "budget": retries.budget, "max": retries.max}
        field = (f"{named(plan, route.field)}.retries.budget",)
        yield alone_case(
            "6.retries.budget", "retries_are_bounded", asked, params, ("route.retries",), route.name, tried=field
        )
    for status in dict.fromkeys((_OWN, *(retries.statuses if retries is not None else ()))):
        own = {"mode": "fixed", "status": status, "body": "its own\n"}
        count = tries(retries, status, asked.method)
        clause = "5.own-status" if count == 1 else "6.retries.status"
        yield fault_case(clause, asked, route, own, status=status, tries=count)


def _unreachable(route: Route, action: Forward, asked: Request) -> Iterator[ScheduledCase]:
    """Endpoints that refuse connections, or do not answer to them."""
    times = action.timeouts
    count = tries(action.retries, RetryCause.CONNECT_FAILURE, asked.method)
    total = count * times.connect
    one = fault_case("5.refused", asked, route, fault=502, within_ms=(0, 1000))
    yield replace(one, phase=Phase.REFUSED)
    if times.connect and (not times.request or total < times.request):
        one = fault_case("6.connect", asked, route, fault=504, within_ms=time_window(total, count))
        yield replace(one, phase=Phase.DROPPED)


def _mistaken(plan: Plan, route: Route, action: Forward, asked: Request) -> Iterator[ScheduledCase]:
    """Endpoints that show the certificate of another name."""
    tls = [plan.pool(target.pool).tls for target in action.targets if target.weight]
    if all(x is not None and x.verify for x in tls):
        one = fault_case("5.tls.endpoint", asked, route, fault=502)
        yield replace(one, case=replace(one.case, features=(*one.case.features, _FAILED_TLS)), phase=Phase.FOREIGN)
    elif all(x is not None and not x.verify for x in tls):
        yield replace(fault_case("5.tls.endpoint", asked, route), phase=Phase.FOREIGN)


def _silent(route: Route, action: Forward, hit: Request) -> Iterator[ScheduledCase]:
    """Bodies that stop."""
    times = action.timeouts
    if action.buffering.response:
        return  # nothing of the answer may have come to the client
    if times.idle and (not times.request or times.idle < times.request):
        stall = {"mode": "stall_body", "wait_ms": 60_000}
        yield fault_case("6.idle.body", hit, route, stall, cut=True, within_ms=time_window(times.idle, 3))


def _of_checked_pools(
    plan: Plan, route: Route, action: Forward, hit: Request, usual: Iterator[ScheduledCase]
) -> Iterator[ScheduledCase]:
    """Of the `usual` cases of a route those whose fault is one request's alone, and cases of endpoints that nobody can
    reach."""
    pools = [plan.pool(target.pool) for target in action.targets if target.weight]
    passive = any(pool.passive is not None for pool in pools)
    for one in usual:
        fault = bool(one.case.steps)
        if one.phase in _WITHOUT_ENDPOINTS or one.pool or (fault and not _fits(pools, one.case.expect.tries or 1)):
            continue
        yield replace(one, phase=Phase.ALONE) if passive and fault else one
    yield from _unreachable_pools(pools, route, action, hit)


def _fits(pools: list[Pool], count: int) -> bool:
    """Whether so many failures of one request leave an endpoint for each further try."""
    return all(
        pool.passive is None or count <= max(pool.passive.failures, sum(1 for x in pool.endpoints if x.weight))
        for pool in pools
    )


def _unreachable_pools(pools: list[Pool], route: Route, action: Forward, hit: Request) -> Iterator[ScheduledCase]:
    """Endpoints that refuse connections, or do not answer to them."""
    names = [f"{pool.name}-{n}" for pool in pools for n, _ in enumerate(pool.endpoints)]
    times, count = action.timeouts, tries(action.retries, RetryCause.CONNECT_FAILURE, hit.method)
    heal = max(_heal_time(pool) for pool in pools)
    common = {"request": hit, "names": names, "heal_ms": heal}
    features = (*((ALIKE,) if may_try_again(route) else ()), "route.retries", "statuses.failures")
    params = {**common, "how": "refuse", "within_ms": (0, 1000)}
    yield alone_case("5.refused", "unreachable_endpoints", hit, params, features, route.name)
    total = count * times.connect
    if times.connect and (not times.request or total < times.request) and _fits(pools, count):
        low, high = time_window(total, count)
        # Checks that get no answer may take the endpoints out before.
        out = min((_out_time(pool.active) for pool in pools if pool.active is not None), default=low)
        exact = min(low, out) > _TOLD * total
        params = {**common, "how": "drop", "within_ms": (min(low, out), high)}
        clause = "6.connect" if exact else "5.unreachable"
        yield alone_case(clause, "unreachable_endpoints", hit, params, features, route.name)


def _out_time(active: ActiveHealth) -> int:
    """Milliseconds that checks take at least until an endpoint which does not answer is out."""
    return round(0.8 * ((active.fall - 1) * active.interval + active.timeout))


def _heal_time(pool: Pool) -> int:
    """Milliseconds after which an endpoint is back."""
    active = 0 if pool.active is None else (pool.active.rise + 1) * (pool.active.interval + pool.active.timeout)
    return active + (0 if pool.passive is None else pool.passive.eject_for) + pool.slow_start + 1_500
