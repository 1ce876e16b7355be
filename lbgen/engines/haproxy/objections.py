"""Verdicts on single places of a plan, which HAProxy cannot serve or serves a little differently."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.api import AT_TIMES, Objection, approximate, habit, refused, version_key
from lbgen.engines.haproxy.retries import RETRYABLE_STATUSES
from lbgen.engines.haproxy.timeouts import sets_time_of_bodies, shortest, shown
from lbgen.plan.features import Feature
from lbgen.plan.model import Balance, Forward, Respond
from lbgen.plan.policy import RetryCause
from lbgen.plan.tls import HYBRID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.plan.model import Plan, Pool, Route
    from lbgen.plan.policy import Retries
    from lbgen.plan.tls import Certificate

_SAFE_PATH = re.compile(r"[A-Za-z0-9/._-]+")
LONGEST_TEXT = 8_000  # bytes of a header value; headers that are added to a head have 8 KiB of room
LONGEST_BODY = 16_000  # bytes of a fixed response, which must fit into one buffer with its head
_NO_HYBRID = refused(
    f"HAProxy knows {HYBRID} with OpenSSL 3.5 or newer only, and offers it by itself there: leave curves out"
)

_UPLOADS = f"{AT_TIMES}time"  # of uploads to an endpoint that stops reading


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
        else:
            yield from _route_times(route, route.action, version)
        if route.action.retries is not None:
            pools = [plan.pool(target.pool) for target in route.action.targets]
            yield from _retries(route.field, route.action.retries, pools)
    uses = _ways_of_use(plan)
    for pool in plan.pools:
        yield from _pool(pool)
        if pool.max_per_endpoint is not None and len(uses.get(pool.name, ())) > 1:
            note = "requests of routes that differ in connect time, retries or compression are counted separately"
            counted = {"pool.connections.max_per_endpoint.routes": "places"}
            yield _differs(Feature.MAX_PER_ENDPOINT, f"{pool.field}.connections.max_per_endpoint", note, counted)
        if pool.active and pool.passive:
            note = "an ejected endpoint returns as soon as its active checks pass, not after eject_for"
            shows = {"pool.health.passive.checked": "endpoint"}
            yield _way(Feature.HEALTH_PASSIVE, f"{pool.field}.health.passive", note, shows)
    for listener in plan.listeners:
        if listener.tls is not None and HYBRID in listener.tls.curves:
            yield Objection(_NO_HYBRID, f"{listener.field}.tls.curves", Feature.TLS_CURVES)
        for certificate in listener.tls.certificates if listener.tls is not None else ():
            yield from _key_beside(certificate, certificate.field, Feature.TLS_TERMINATE, stores=_has_store(version))


def _differs(feature: Feature, field: str, note: str, shows: Mapping[str, str | tuple[str, ...]]) -> Objection:
    """An approximate verdict; `shows` is what conformance cases observe instead."""
    return Objection(approximate(note, shows), field, feature)


def _way(feature: Feature, field: str, note: str, shows: Mapping[str, str | tuple[str, ...]]) -> Objection:
    """A habit; `shows` as in `_differs`."""
    return Objection(habit(note, shows), field, feature)


def _route_times(route: Route, action: Forward, version: str) -> Iterable[Objection]:
    """One timer keeps both times before HAProxy 3.0: the longer holds."""
    times, where = action.timeouts, f"{route.field}.timeouts"
    if times.response == times.idle:
        return
    if sets_time_of_bodies(version):
        note = f"an endpoint that stops reading is given up after {shown(times.response)} (response)"
        yield _way(Feature.TIMEOUT_IDLE, where, note, {"timeouts.idle.routes": _UPLOADS})
    elif shortest(times.response, times.idle) == times.idle:
        note = (
            f"an endpoint may be silent in a body for {shown(times.response)} (response), not for idle; 3.0 tells both"
        )
        yield _differs(
            Feature.TIMEOUT_IDLE, where, note, {"timeouts.idle.body": "time", "timeouts.idle.routes": _UPLOADS}
        )
    else:
        note = f"a response may begin within {shown(times.idle)} (idle), not response; HAProxy 3.0 tells both"
        yield _way(Feature.TIMEOUT_RESPONSE, where, note, {"timeouts.response.routes": "time"})


def _retries(route: str, retries: Retries, pools: list[Pool]) -> Iterable[Objection]:
    """`route` is the route's field."""
    where = f"{route}.retries"
    if other := [status for status in retries.statuses if status not in RETRYABLE_STATUSES]:
        note = f"HAProxy retries on {', '.join(map(str, RETRYABLE_STATUSES))}, not on {', '.join(map(str, other))}"
        yield Objection(refused(note), where, Feature.RETRIES)
    if RetryCause.CONNECT_FAILURE in retries.causes and any(map(_has_unreachable_backup, pools)):
        note = "a retry does not use a backup; without health checks a backup never serves"
        yield _differs(Feature.BACKUP, where, note, {"pool.backup.by_retry": ("status 502", "status 503")})


def _has_unreachable_backup(pool: Pool) -> bool:
    """Whether no check can bring a backup of this pool in."""
    return any(endpoint.backup for endpoint in pool.endpoints) and not (pool.active or pool.passive)


def _ways_of_use(plan: Plan) -> dict[str, set[tuple[object, ...]]]:
    """The distinct ways in which routes use a pool, each with a backend of its own, by its name."""
    uses: dict[str, set[tuple[object, ...]]] = {}
    for route in plan.routes:
        if isinstance(route.action, Forward):
            for target in route.action.targets:
                way = (route.action.timeouts.connect, route.action.retries, route.compression)
                uses.setdefault(target.pool, set()).add(way)
    return uses


def _pool(pool: Pool) -> Iterable[Objection]:
    if pool.max_per_endpoint is not None and pool.balance in (Balance.HASH, Balance.SOURCE_HASH, Balance.RANDOM):
        note = "a request for an endpoint that is full does not go to another one"
        where = f"{pool.field}.connections.max_per_endpoint"
        shows = {"pool.connections.max_per_endpoint.chosen": "places"}
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
