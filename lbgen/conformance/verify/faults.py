"""A plan -> what must happen when endpoints fail, hang or vanish, and how long it takes, as cases for a running engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.corpus import hit_of
from lbgen.conformance.verify.asked import rules
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Mode
from lbgen.plan.policy import IDEMPOTENT, RetryCause
from lbgen.plan.simulate import Request, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener, Plan, Route
    from lbgen.plan.policy import Retries

_TIMES = (str(Feature.TIMEOUT_RESPONSE), str(Feature.TIMEOUT_IDLE), str(Feature.TIMEOUT_REQUEST))
_OWN = 500  # a status that nobody retries unless asked


class Phase(StrEnum):
    """What the endpoints do meanwhile. Cases of `CALM` run side by side, those of `ALONE` one by one."""

    CALM = "answer"
    ALONE = "answer, one request at a time"
    REFUSED = "refuse connections"
    DROPPED = "drop connections"


@dataclass(frozen=True, slots=True)
class Planned:
    """A case, and when it runs."""

    case: Case
    phase: Phase = Phase.CALM


def around(milliseconds: float, tries: int = 1) -> tuple[int, int]:
    """From when to when something that takes so long is in time, in milliseconds."""
    return round(0.93 * milliseconds - 15), round(1.15 * milliseconds + 40 * tries)


def planned(plan: Plan, client: str) -> tuple[Planned, ...]:
    """Every fault case of `plan`, numbered within its clause."""
    counts: dict[str, int] = {}
    found = []
    for one in _every(plan, client):
        counts[one.case.clause] = number = counts.get(one.case.clause, 0) + 1
        found.append(replace(one, case=replace(one.case, id=f"{one.case.clause}/{number}")))
    return tuple(found)


def _every(plan: Plan, client: str) -> Iterator[Planned]:
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            continue
        yield from _client_times(plan, listener, client)
        for route, hit in hits(plan, listener, client):
            if isinstance(route.action, Forward) and not _watched(plan, route.action):
                yield from _route(plan, route, route.action, hit)


def hits(plan: Plan, listener: Listener, client: str) -> Iterator[tuple[Route, Request]]:
    """Each route of a listener with a request that it serves."""
    seen = set()
    for rule in rules(listener):
        draft = hit_of(rule)
        if draft is None or rule.route in seen:
            continue
        request = replace(draft.request(listener.name), client=client)
        if simulate(plan, request).route == rule.route:
            seen.add(rule.route)
            yield plan.route(rule.route), request


def _watched(plan: Plan, action: Forward) -> bool:
    """Whether failures take endpoints out: then one fault changes what the next request meets."""
    pools = [plan.pool(target.pool) for target in action.targets]
    return any(pool.active is not None or pool.passive is not None for pool in pools)


def tries(retries: Retries | None, cause: RetryCause | int, method: str) -> int:
    """How often a request reaches endpoints while that cause persists."""
    if retries is None:
        return 1
    listed = cause in retries.statuses if isinstance(cause, int) else cause in retries.causes
    repeatable = retries.all_methods or method in IDEMPOTENT or cause is RetryCause.CONNECT_FAILURE
    return 1 + retries.max if listed and repeatable else 1


def _route(plan: Plan, route: Route, action: Forward, hit: Request) -> Iterator[Planned]:
    times, retries = action.timeouts, action.retries
    features = _TIMES if retries is None else (*_TIMES, str(Feature.RETRIES))
    methods = [hit.method] if hit.method != "GET" else ["GET", "POST"]

    def case(clause: str, step: dict[str, Any] | list[dict[str, Any]], request: Request, **expect: Any) -> Planned:  # noqa: ANN401  # as in `Expect`
        steps = tuple(step) if isinstance(step, list) else (step,)
        longest = expect.get("within_ms", (0, 2000))[1] / 1000
        return Planned(
            Case("", clause, request, Expect(**expect), features, routes=(route.name,), steps=steps, timeout=longest + 2)
        )

    for method in methods:
        asked = replace(hit, method=method)
        if simulate(plan, asked).route != route.name:
            continue
        for mode in ("close", "reset"):
            count = tries(retries, RetryCause.RESET, method)
            yield case(f"5.{mode}", {"mode": mode}, asked, fault=502, tries=count)
        if times.response:
            count = tries(retries, RetryCause.TIMEOUT, method)
            total = count * times.response
            if not times.request or total < times.request:
                hang = {"mode": "hang", "wait_ms": 60_000}
                yield case("6.response", hang, asked, fault=504, tries=count, within_ms=around(total, count))
        for status in dict.fromkeys((_OWN, *(retries.statuses if retries is not None else ()))):
            own = {"mode": "fixed", "status": status, "body": "its own\n"}
            yield case("6.retries.status" if status != _OWN else "5.own-status", own, asked, status=status,
                       tries=tries(retries, status, method))  # fmt: skip
        if method == "GET" or (retries is not None and retries.all_methods):
            if retries is not None and RetryCause.RESET in retries.causes:
                yield case("6.retries.recovers", [{"mode": "close"}, {"mode": "json"}], asked, status=200, tries=2)
        for phase, clause, status, time in (
            (Phase.REFUSED, "5.refused", 502, 0),
            (Phase.DROPPED, "6.connect", 504, times.connect),
        ):
            count = tries(retries, RetryCause.CONNECT_FAILURE, method)
            if phase is Phase.DROPPED and not time:
                continue
            total = count * time
            if times.request and total >= times.request:
                continue
            within = around(total, count) if time else (0, 1000)
            yield Planned(
                Case("", clause, asked, Expect(fault=status, within_ms=within), (*features, str(Feature.TIMEOUT_CONNECT)),
                     routes=(route.name,), timeout=within[1] / 1000 + 2),
                phase,
            )  # fmt: skip
    if hit.method != "HEAD":
        if times.idle and (not times.request or times.idle < times.request):
            stall = {"mode": "stall_body", "wait_ms": 60_000}
            yield case("6.idle.body", stall, hit, cut=True, within_ms=around(times.idle))
        if times.request:
            hang = {"mode": "hang", "wait_ms": 60_000}
            if not times.response or times.request < times.response:
                yield case("6.request.head", hang, hit, fault=504, within_ms=around(times.request))
            gap = max(20, min(times.idle or 200, 200) // 2)
            drip = {"mode": "drip", "wait_ms": gap, "count": 2 + 2 * times.request // gap}
            yield case("6.request.body", drip, hit, cut=True, within_ms=around(times.request))
    if hit.method == "GET" and times.idle:
        yield Planned(
            Case("", "6.idle.tunnel", hit, Expect(), _TIMES, script="tunnel_idle", routes=(route.name,),
                 params={"request": hit, "within_ms": around(times.idle)}),
        )  # fmt: skip


def _client_times(plan: Plan, listener: Listener, client: str) -> Iterator[Planned]:
    """A slow head, a silent body and an idle connection are ended in time."""
    features = (str(Feature.CLIENT_TIMEOUTS), *_TIMES)
    found = next(((r, x) for r, x in hits(plan, listener, client) if isinstance(r.action, Forward)), None)
    request = Request("GET", "/", (("Host", "lbgen-corpus.invalid"),), listener.name, client)
    times = listener.timeouts
    if times.header:
        within = around(times.header)
        yield Planned(
            Case("", "6.client.header", request, Expect(dropped=True, within_ms=within), features,
                 send=(b"GET / HTTP/1.1\r\nHost: slow.invalid\r\nX-", within[1] / 1000 + 1), timeout=within[1] / 1000 + 2)
        )  # fmt: skip
    if times.keepalive:
        yield Planned(
            Case("", "6.client.keepalive", request, Expect(), features, script="kept_idle",
                 params={"request": request, "within_ms": around(times.keepalive)})
        )  # fmt: skip
    if found is not None and times.body:
        _, hit = found
        head = [f"POST {hit.target} HTTP/1.1", *(f"{n}: {v}" for n, v in hit.headers), "Content-Length: 10", "", "abc"]
        within = around(times.body)
        yield Planned(
            Case("", "6.client.body", request, Expect(dropped=True, within_ms=within), features,
                 send=("\r\n".join(head).encode("latin-1"), within[1] / 1000 + 1), timeout=within[1] / 1000 + 2)
        )  # fmt: skip
