"""What a topology's own times and retries allow a fault to do: how many requests may fail, until when, and how long the
others may take. An upper bound; docs/bench.md says how it is computed."""

from __future__ import annotations

import os
from math import ceil
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.bench.faults import FAULT_SECONDS, PULSE_SECONDS, SLOW_CLIENTS, SLOW_SECONDS, Fault
from lbgen.conformance.verify.cases import tries
from lbgen.plan.model import Balance, Forward, Listener, Mode, Plan, Pool, Route, Timeouts
from lbgen.plan.policy import RetryCause
from lbgen.plan.pool import Endpoint

if TYPE_CHECKING:
    from lbgen.bench.target import LoadTarget

_HASHES = (Balance.SOURCE_HASH, Balance.HASH)
_NOTICED_SECONDS = 1.0  # within which an engine, or its agent, acts on what a check found
_IN_FLIGHT = 2  # requests that a connection loses when its endpoint goes down
_CAUSES: dict[Fault, RetryCause | int] = {
    Fault.RESET: RetryCause.RESET,
    Fault.FREEZE: RetryCause.TIMEOUT,
    Fault.FLAP: RetryCause.CONNECT_FAILURE,
    Fault.UNAVAILABLE: 503,
}


class Envelope(Struct, frozen=True):
    """`share` of the requests may fail that are due while the fault has an effect: for `seconds` from its beginning
    (None: as long as it lasts), and `after` its end. `most` of them at all (None: no more is known). `slowest`: seconds
    that any request may take without what the machine adds; None: no bound. `why`: in a sentence."""

    share: float
    why: str
    slowest: float | None = 0.0
    most: int | None = None
    seconds: float | None = None
    after: float = 0.0


def slow_seconds(plan: Plan, target: LoadTarget) -> float:
    """By how much the slow endpoint of a drill is late: half the response time, at most 0.5 s."""
    response = _times(plan, target).response
    return min(SLOW_SECONDS, response / 2000) if response else SLOW_SECONDS


def uses_hash(plan: Plan, target: LoadTarget) -> bool:
    """Whether all equal requests go to one endpoint."""
    return _pool_of(plan, target)[0].balance in _HASHES


def envelope_of(plan: Plan, target: LoadTarget, fault: Fault) -> Envelope:
    """The envelope of a load of equal GETs."""
    route, listener = plan.route(target.route), plan.listener(target.listener)
    pool, endpoint = _pool_of(plan, target)
    if route.rate_limit is not None or route.concurrency is not None or pool.max_per_endpoint is not None:
        return Envelope(1.0, "a limit of the route or pool may refuse any request", None, after=FAULT_SECONDS)
    if fault is Fault.KILL:
        return Envelope(1.0, "nothing listens until the engine serves again", None)
    if fault is Fault.RELOAD:
        return Envelope(0.0, "a reload loses no request")
    if fault is Fault.SLOW_CLIENTS:
        if listener.max_connections is not None and listener.max_connections <= 2 * SLOW_CLIENTS:
            return Envelope(1.0, f"the listener has no more than {listener.max_connections} connections", None)
        return Envelope(0.0, "slow clients hold connections, not workers")
    return _of_endpoint(route, listener, pool, endpoint, fault)


def _of_endpoint(route: Route, listener: Listener, pool: Pool, endpoint: Endpoint, fault: Fault) -> Envelope:
    action = route.action
    assert isinstance(action, Forward)  # noqa: S101  # what is measured is forwarded
    others = [x for x in pool.endpoints if x.weight and not x.backup and x is not endpoint]
    share, whose = _share(action, pool, endpoint, len(others), fault)
    slowest, fails, why = _effect(action, listener, fault, other=bool(others))
    seconds, after = _health(pool, fault)
    if not others and after:
        why = "it is the only one, and checks take it out for longer than the fault"
        return Envelope(share, why, slowest, after=after)
    if fault in (Fault.FLAP, Fault.UNAVAILABLE):
        share, whose = share / 2, f"{whose} half of the time it fails;"
    if fails:
        return Envelope(share, f"{whose} {why}", slowest, _most(pool, fault) if others else None, seconds)
    if fault is Fault.FLAP:
        cut = _IN_FLIGHT * ceil(FAULT_SECONDS / (2 * PULSE_SECONDS))
        return Envelope(share, f"{why}, but those that it cuts as it goes down", slowest, cut)
    return Envelope(0.0, why, slowest)


def _share(action: Forward, pool: Pool, endpoint: Endpoint, others: int, fault: Fault) -> tuple[float, str]:
    """The largest share of the requests that the endpoint gets, and a clause that says so."""
    part = sum(x.weight for x in action.targets if x.pool == pool.name) / sum(x.weight for x in action.targets)
    if pool.balance in _HASHES or not others:
        return part, "it gets all requests of the pool;"
    if pool.balance is Balance.LEAST_CONNECTIONS and fault not in (Fault.SLOW, Fault.FREEZE):
        return part, "an endpoint that fails at once has the least connections;"
    own = endpoint.weight / sum(x.weight for x in pool.endpoints if not x.backup)
    return part * own, f"it gets {part * own:.0%} of the requests;"


def _effect(action: Forward, listener: Listener, fault: Fault, *, other: bool) -> tuple[float, bool, str]:
    """The longest time of a request, whether requests fail at the endpoint without health checks, and why."""
    times, retries = action.timeouts, action.retries
    if listener.mode is Mode.L4:
        return _effect_at_layer_4(times, fault)
    cause = _CAUSES.get(fault)
    count = 1 if cause is None else tries(retries, cause, "GET")
    hidden = count > 1 and other and (retries is None or retries.budget is None)
    again = f"tried again elsewhere on {cause}" if hidden else "not tried again elsewhere"
    request = times.request / 1000 or None
    if fault is Fault.SLOW:
        late = min(SLOW_SECONDS, times.response / 2000) if times.response else SLOW_SECONDS
        if request is not None and request < late:
            return request, True, "the request time is over first"
        return late, False, "its answers are in time"
    if fault is not Fault.FREEZE:
        return 0.0, not hidden, again
    response = times.response / 1000 or FAULT_SECONDS
    if response >= FAULT_SECONDS and (request is None or request >= FAULT_SECONDS):
        return FAULT_SECONDS, False, f"the response time is longer than the {FAULT_SECONDS:g} s"
    total = response * (1 if hidden else count)
    if request is not None and request <= total:
        return request, True, f"504 after the request time, {request:g} s"
    return total, not hidden, f"{again} after the response time, {response:g} s"


def _effect_at_layer_4(times: Timeouts, fault: Fault) -> tuple[float, bool, str]:
    if fault is Fault.SLOW:
        late = min(SLOW_SECONDS, times.response / 2000) if times.response else SLOW_SECONDS
        cut = bool(times.idle) and times.idle / 1000 <= late
        return late, cut, "its answers are late"
    if fault is Fault.FREEZE:
        idle = times.idle / 1000 or FAULT_SECONDS
        if idle >= FAULT_SECONDS:
            return FAULT_SECONDS, False, f"the idle time is longer than the {FAULT_SECONDS:g} s"
        return idle, True, f"cut after the idle time, {idle:g} s"
    return 0.0, True, "layer 4 passes on what the endpoint does"


def _health(pool: Pool, fault: Fault) -> tuple[float | None, float]:
    """For how long checks leave the endpoint in (None: none is certain to find the fault), and how long after its end
    it may stay out."""
    seconds: float | None = None
    after = 0.0
    active = pool.active
    if active is not None:
        timeout, interval = active.timeout / 1000, active.interval / 1000
        late = {Fault.SLOW: SLOW_SECONDS, Fault.FREEZE: FAULT_SECONDS}.get(fault)
        if fault is Fault.FLAP or (active.path is not None and (late is None or timeout < late)):
            after = active.rise * (interval + timeout) + _NOTICED_SECONDS
            if fault in (Fault.RESET, Fault.FREEZE):  # the others come and go between two checks
                seconds = active.fall * (interval + timeout) + _NOTICED_SECONDS
    if pool.passive is not None and fault is not Fault.SLOW:
        after = max(after, pool.passive.eject_for / 1000 + _NOTICED_SECONDS)
    return seconds, after


def _most(pool: Pool, fault: Fault) -> int | None:
    """The failures after which passive checks take the endpoint out, in each worker; with those of each return."""
    if pool.passive is None or fault in (Fault.FLAP, Fault.UNAVAILABLE):
        return None  # what goes well between two failures begins the count anew
    returns = 1 + ceil(FAULT_SECONDS * 1000 / max(1, pool.passive.eject_for))
    return pool.passive.failures * (os.cpu_count() or 1) * returns + _IN_FLIGHT


def _times(plan: Plan, target: LoadTarget) -> Timeouts:
    action = plan.route(target.route).action
    assert isinstance(action, Forward)  # noqa: S101  # what is measured is forwarded
    return action.timeouts


def _pool_of(plan: Plan, target: LoadTarget) -> tuple[Pool, Endpoint]:
    return next((pool, x) for pool in plan.pools for x in pool.endpoints if x.field == target.endpoint)
