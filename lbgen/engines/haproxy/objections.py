"""Verdicts on single places of a plan, which HAProxy cannot serve or serves a little differently."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused, version_key
from lbgen.engines.haproxy.retries import RETRYABLE_STATUSES, serving_endpoints, waits_before_reconnect
from lbgen.engines.haproxy.timeouts import connect_time, is_idle_cut_short, retries_after_sending, shortest, shown
from lbgen.plan.features import Feature
from lbgen.plan.model import Balance, Forward, Mode, Respond
from lbgen.plan.policy import RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.plan.model import Listener, Plan, Pool, Route
    from lbgen.plan.policy import Retries
    from lbgen.plan.tls import Certificate

_SAFE_PATH = re.compile(r"[A-Za-z0-9/._-]+")
LONGEST_TEXT = 8_000  # bytes of a header value; headers that are added to a head have 8 KiB of room
LONGEST_BODY = 16_000  # bytes of a fixed response, which must fit into one buffer with its head


def objections(plan: Plan, version: str) -> Iterable[Objection]:
    """Places of `plan` that HAProxy cannot serve, or serves a little differently."""
    l4 = {rule.route for listener in plan.listeners for rule in listener.l4_rules}
    l4_pools: set[str] = set()
    for route in plan.routes:
        yield from _texts(route)
        if not isinstance(route.action, Forward):
            continue
        if route.name in l4:
            l4_pools.update(target.pool for target in route.action.targets)
        yield from _route_times(route, route.action, route.name in l4)
        if route.action.retries is not None:
            pools = [plan.pool(target.pool) for target in route.action.targets]
            yield from _retries(route.field, route.action.retries, pools)
    uses = _connect_times_and_retries(plan)
    for pool in plan.pools:
        yield from _pool(pool)
        if pool.max_per_endpoint is not None and len(uses.get(pool.name, ())) > 1:
            note = "requests of routes that differ in connect time or retries are counted separately"
            shows = {"pool.connections.max_per_endpoint.routes": "text: one more than"}
            yield _differs(Feature.MAX_PER_ENDPOINT, f"{pool.field}.connections.max_per_endpoint", note, shows)
        if pool.active and pool.passive and pool.name in l4_pools:
            note = "an ejected endpoint of an L4 pool returns as soon as its active checks pass, not after eject_for"
            shows = {"pool.health.passive.checked": "text: came back after"}
            yield _differs(Feature.HEALTH_PASSIVE, f"{pool.field}.health.passive", note, shows)
    for listener in plan.listeners:
        if listener.mode is Mode.L7:
            yield from _client_times(plan, listener, version)
        for certificate in listener.tls.certificates if listener.tls is not None else ():
            yield from _key_beside(certificate, certificate.field, Feature.TLS_TERMINATE, stores=_has_store(version))


def _differs(feature: Feature, field: str, note: str, shows: Mapping[str, str | tuple[str, ...]]) -> Objection:
    """An approximate verdict; `shows` is what conformance cases observe instead."""
    return Objection(approximate(note, shows), field, feature)


def _route_times(route: Route, action: Forward, is_l4: bool) -> Iterable[Objection]:
    if not is_l4 and is_idle_cut_short(action):
        note = (
            "with retries on reset or timeout HAProxy's only timer keeps the response time, so a body may be silent "
            "for that time, not for the idle time; make both equal"
        )
        yield _differs(Feature.TIMEOUT_IDLE, f"{route.field}.timeouts", note, {"timeouts.idle.body": ("cut", "time")})
    if action.timeouts.request and retries_after_sending(action.retries):
        note = (
            "with retries on reset or timeout the time of the request starts anew for each try, until its response "
            "head; a response that begins after the end of that time becomes a 504"
        )
        shows = {"timeouts.request.tries": ("time", "text: tries reached")}
        yield _differs(Feature.TIMEOUT_REQUEST, f"{route.field}.timeouts.request", note, shows)


def _retries(route: str, retries: Retries, pools: list[Pool]) -> Iterable[Objection]:
    """`route` is the route's field."""
    where = f"{route}.retries"
    if other := [status for status in retries.statuses if status not in RETRYABLE_STATUSES]:
        note = f"HAProxy retries on {', '.join(map(str, RETRYABLE_STATUSES))}, not on {', '.join(map(str, other))}"
        yield Objection(refused(note), where, Feature.RETRIES)
    retries_connects = RetryCause.CONNECT_FAILURE in retries.causes
    if retries_connects and any(map(waits_before_reconnect, pools)):
        note = (
            "after a connection that another host refuses HAProxy waits for the connect time, a second at most, before "
            "it reconnects; it does not wait when its own host refuses"
        )
        yield _differs(Feature.RETRIES, where, note, {})  # shown by a test, not by a case
    if retries.max > 1 and any(len(serving_endpoints(pool)) > 2 for pool in pools):
        note = (
            "a try avoids only the endpoint of the previous one: a third may return to the first endpoint when other "
            "requests come between, or when the endpoint is chosen by hash or at random"
        )
        yield _differs(Feature.RETRIES, where, note, {"route.retries.untried": "text: came back to an endpoint"})
    if any(pool.passive for pool in pools):
        note = "a failed try that is retried does not count as a failure of its endpoint"
        yield _differs(Feature.HEALTH_PASSIVE, where, note, {"pool.health.passive.tries_count": "text: was asked"})
    if retries_connects and any(_has_unreachable_backup(pool) for pool in pools):
        note = "a retry does not use a backup; without health checks a backup never serves"
        # 503 is HAProxy's own answer, 502 that of the contract.
        yield _differs(Feature.BACKUP, where, note, {"pool.backup.by_retry": ("status 502", "status 503")})


def _has_unreachable_backup(pool: Pool) -> bool:
    """Whether no check can bring a backup of this pool in."""
    return any(endpoint.backup for endpoint in pool.endpoints) and not (pool.active or pool.passive)


def _connect_times_and_retries(plan: Plan) -> dict[str, set[tuple[object, Retries | None]]]:
    """The distinct pairs with which routes use a pool, by its name."""
    uses: dict[str, set[tuple[object, Retries | None]]] = {}
    for route in plan.routes:
        if isinstance(route.action, Forward):
            for target in route.action.targets:
                uses.setdefault(target.pool, set()).add((connect_time(route.action.timeouts), route.action.retries))
    return uses


# Of conformance and of verify.
_KEPT_SHOWS = ("text: 1.5 s after", "text: the connection took")


def _client_times(plan: Plan, listener: Listener, version: str) -> Iterable[Objection]:
    """HAProxy's `timeout client` keeps the time of a body that stops, and applies elsewhere as well."""
    times, where = listener.timeouts, f"{listener.field}.timeouts"
    body = shown(times.body)
    if shortest(times.body, times.header) != times.header:
        note = f"a head must come within {body} (client_body), not {shown(times.header)} (client_header)"
        yield _differs(Feature.CLIENT_TIMEOUTS, where, note, {"listener.timeouts.head": "status 408"})
    if version == "2.6" and shortest(times.body, times.keepalive) != times.keepalive:
        note = f"an idle connection is kept for {body} (client_body), not for {shown(times.keepalive)} (keepalive)"
        yield _differs(Feature.CLIENT_TIMEOUTS, where, note, {"listener.timeouts.kept": _KEPT_SHOWS})
    names = dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules)
    for route in map(plan.route, names):
        if isinstance(route.action, Forward) and route.action.timeouts.idle != times.body:
            idle = shown(route.action.timeouts.idle)
            note = f"a client may pause for {body} (client_body) while it reads, on {route.name} not for {idle} (idle)"
            yield _differs(Feature.CLIENT_TIMEOUTS, where, note, {"listener.timeouts.reading": "text: the client took"})
            return


def _pool(pool: Pool) -> Iterable[Objection]:
    if pool.max_per_endpoint is not None and pool.balance in (Balance.HASH, Balance.SOURCE_HASH, Balance.RANDOM):
        note = "a request for an endpoint that is full does not go to another one"
        where = f"{pool.field}.connections.max_per_endpoint"
        shows = {"pool.connections.max_per_endpoint.chosen": ("text: as many as there are places", "text: at a time")}
        yield _differs(Feature.MAX_PER_ENDPOINT, where, note, shows)
    tls = pool.tls
    if tls is None:
        return
    if tls.verify and tls.server_name is None and any(endpoint.is_ip for endpoint in pool.endpoints):
        why = "HAProxy compares a certificate with a name, never with an address; give `server_name`"
        yield Objection(refused(why), f"{pool.field}.tls", Feature.POOL_TLS)
    if tls.certificate is not None:
        yield from _key_beside(tls.certificate, f"{pool.field}.tls.certificate", Feature.POOL_TLS)


def _has_store(version: str) -> bool:
    """Whether this version has `crt-store`, which names the key of a listener's certificate."""
    return version_key(version) >= (3, 0)


def _key_beside(certificate: Certificate, field: str, feature: Feature, *, stores: bool = False) -> Iterable[Objection]:
    beside = certificate.key.path == f"{certificate.cert.path}.key"
    if not all(_SAFE_PATH.fullmatch(each.path) for each in (certificate.cert, certificate.key)):
        yield Objection(refused("a path holds only letters, digits and / . _ -"), field, feature)
    elif not beside and not stores:
        why = f"HAProxy looks for the key at {certificate.cert.path}.key; put it there, or name both by relative paths"
        yield Objection(refused(why), field, feature)


def _texts(route: Route) -> Iterable[Objection]:
    edits = [(route.request_headers, "request_headers"), (route.response_headers, "response_headers")]
    action = route.action
    if isinstance(action, Forward):
        edits += [(target.request_headers, "forward") for target in action.targets]
    texts = [(value, where) for edit, where in edits if edit for _, value in (*edit.set, *edit.add)]
    if isinstance(action, Respond):
        texts += [(value, "respond") for _, value in action.headers]
        if len(action.body.encode()) > LONGEST_BODY:
            yield Objection(refused(f"a fixed answer holds at most {LONGEST_BODY} bytes"), f"{route.field}.respond")
    if texts and any(len(value.encode()) > LONGEST_TEXT for value, _ in texts):
        where = next(where for value, where in texts if len(value.encode()) > LONGEST_TEXT)
        yield Objection(refused(f"a header value holds at most {LONGEST_TEXT} bytes"), f"{route.field}.{where}")
