"""Cases of pools, at layer 7 and 4: shares and keys, busy endpoints, health checks, backups, kept connections."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, log, sqrt
from typing import Any

from msgspec.structs import replace

from lbgen.conformance.verify.cases import ScheduledCase, alone_case, distinct_client, first_case, with_headers
from lbgen.plan.model import Balance, Endpoint, Mode, Plan, Pool, Protocol, Route
from lbgen.plan.policy import Access, ActiveHealth, Key, KeyKind
from lbgen.plan.request import Request

MOST = 300  # requests that one case may need
TIMES = 240  # requests whose shares are counted
_DEVIATIONS = 5.0
_KEYS, _MOST_KEYS = 24, 120
_FEW = 40  # requests of which all go to the only endpoint
_MISSED = 1e-6  # chance that so many keys leave an endpoint out
_CHOSEN = (Balance.HASH, Balance.SOURCE_HASH, Balance.RANDOM)  # who serves does not depend on who has places
_COUNTED = (Balance.ROUND_ROBIN, Balance.RANDOM, Balance.LEAST_CONNECTIONS)
_LONG = 1_500  # milliseconds in which many requests have come together
_LONGEST_IDLE = 10_000  # milliseconds that are waited for kept connections to end
_MARGIN = 1_500  # milliseconds that a proxy may need to notice, beside those that the fields say
_EARLY = 0.8  # of the time that failing checks take


def pool_cases(
    plan: Plan, pool: Pool, hit: Request, route: Route, access: tuple[Access | None, ...], of: str = ""
) -> Iterator[ScheduledCase]:
    """Cases of one pool, by a request that reaches it. `of`: the pool's name, where the request may reach others."""
    listener = plan.listener(hit.listener)
    l4 = listener.mode is Mode.L4
    main = [(n, e) for n, e in enumerate(pool.endpoints) if e.weight and not e.backup]
    backups = [f"{pool.name}-{n}" for n, e in enumerate(pool.endpoints) if e.weight and e.backup]
    common: dict[str, Any] = {"request": hit, "pool": of}
    secret = listener.tls is not None and listener.tls.passthrough  # only the server name can be read
    yield from _balance(pool, main, common, route, access, l4=l4, secret=secret, udp=listener.protocol is Protocol.UDP)
    if not l4:
        yield from _places(pool, main, backups, hit, route)
        yield kept_case(pool, hit, route)
    if pool.proxy_protocol is not None and not (secret or of or listener.protocol is Protocol.UDP):
        params = {"request": hit, "version": int(pool.proxy_protocol.removeprefix("v"))}
        tried = (f"{pool.field}.proxy_protocol",)
        yield alone_case("4.proxy-header", "proxy_header_arrives", hit, params, (), route.name, tried=tried)
    hashed = pool.balance in (Balance.SOURCE_HASH, Balance.HASH)
    yield from _health(pool, main, backups, common, route, hashed=hashed)


def _places(
    pool: Pool, main: list[tuple[int, Endpoint]], backups: list[str], hit: Request, route: Route
) -> Iterator[ScheduledCase]:
    if pool.max_per_endpoint is None or pool.max_per_endpoint * len(main) > MOST:
        return
    params = {"request": hit, "most": pool.max_per_endpoint * len(main), "status": 503, "hold_ms": hold_time(route)}
    if pool.queue is not None and pool.queue.size <= MOST and pool.balance not in _CHOSEN:
        waits = {"size": pool.queue.size, "timeout_ms": pool.queue.timeout}
        tried = (f"{pool.field}.connections.max_per_endpoint",)
        yield alone_case("6.queue", "queue_holds", hit, {**params, **waits}, (), route.name, tried=tried)
    elif pool.queue is None and not backups:
        chosen = pool.balance in _CHOSEN and len(main) > 1
        features = (
            "pool.connections.max_per_endpoint",
            *(("pool.connections.max_per_endpoint.chosen",) if chosen else ()),
        )
        yield alone_case("6.full", "concurrency_holds", hit, params, features, route.name)


def hold_time(route: Route) -> int:
    """Milliseconds for which an answer may keep its client waiting."""
    times = getattr(route.action, "timeouts", None)
    limits = [] if times is None else [x for x in (times.response, times.request) if x]
    return min([_LONG, *(int(limit) * 3 // 4 for limit in limits)])


def kept_case(pool: Pool, hit: Request, route: Route, *excuses: str) -> ScheduledCase:
    """Connections to endpoints that are used again, and those that are idle. `hit` leads requests to the pool, be it
    as copies or questions; `excuses` are those of these."""
    idle = pool.keepalive_idle if pool.keepalive_idle <= _LONGEST_IDLE else 0
    names = [f"{pool.name}-{n}" for n, endpoint in enumerate(pool.endpoints) if endpoint.weight and not endpoint.backup]
    path = None if pool.active is None or pool.active.port is not None else pool.active.path
    if path is not None and hit.target == path:  # tells requests from checks
        hit = replace(hit, target=f"{hit.target}{'&' if '?' in hit.target else '?'}kept")
    params = {"request": hit, "names": names, "keepalive": pool.keepalive, "idle_ms": idle, "path": path}
    features = ("pool.connections.keepalive", "pool.connections.keepalive_idle", *excuses)
    tried = [f"{pool.field}.connections.keepalive"] + ([f"{pool.field}.connections.keepalive_idle"] if idle else [])
    return alone_case("6.kept", "connections_are_kept", hit, params, features, route.name, tried=tuple(tried))


def _health(
    pool: Pool,
    main: list[tuple[int, Endpoint]],
    backups: list[str],
    common: dict[str, Any],
    route: Route,
    *,
    hashed: bool,
) -> Iterator[ScheduledCase]:
    hit = common["request"]
    names = [f"{pool.name}-{n}" for n, _ in main]
    others = names[1:] or backups
    alone = not hashed or len(main) == 1  # else one key meets one endpoint only
    active, passive = pool.active, pool.passive
    if active is not None and alone:
        params = {**common, "name": names[0], "others": others, **_checks(pool, active)}
        features = ("pool.health.active", "pool.health.active.routes")
        tried = (f"{pool.field}.endpoints[{main[0][0]}].address",)
        yield alone_case("6.active", "failed_checks_take_out", hit, params, features, route.name, tried=tried)
        weights = {endpoint.weight for _, endpoint in main}
        if pool.slow_start and others and len(weights) == 1 and pool.balance is Balance.ROUND_ROBIN:
            eased, field = {**params, "share": 1 / len(main)}, (f"{pool.field}.slow_start",)
            excuses = ("pool.slow_start",)
            yield alone_case("6.slow-start", "endpoint_is_eased_in", hit, eased, excuses, route.name, tried=field)
    if backups and (active is not None or passive is not None):
        out = _checks(pool, active) if active is not None else _ejected(pool)
        params = {**common, "names": names, "backups": backups, "checked": active is not None, **out}
        yield alone_case("6.backup", "backups_take_over", hit, params, ("pool.backup",), route.name)
    if passive is not None and alone and passive.failures <= 20:
        own = None if active is None or active.port is not None else active.path
        eject = {"failures": passive.failures, "eject_ms": passive.eject_for, "path": own}
        params = {**common, "name": names[0], "others": others, **eject}
        yield alone_case("6.passive", "failures_eject", hit, params, ("pool.health.passive",), route.name)


def _checks(pool: Pool, active: ActiveHealth) -> dict[str, Any]:
    """How checks fail, and the times within which that shows."""
    step = active.interval + active.timeout
    failing = next(x for x in (503, 404, 204, 302, 500) if not any(low <= x <= high for low, high in active.statuses))
    silent = active.fall * step + _MARGIN
    return {
        "path": active.path,
        "status": failing,
        "fall": active.fall,
        "out_ms": (0, active.fall * active.interval + active.timeout + _MARGIN),
        "silent_ms": (round(_EARLY * ((active.fall - 1) * active.interval + active.timeout)), silent),
        "slow_ms": pool.slow_start,
        "back_ms": active.rise * active.interval + active.timeout + pool.slow_start + _MARGIN,
    }


def _ejected(pool: Pool) -> dict[str, Any]:
    back = 0 if pool.passive is None else pool.passive.eject_for
    return {"path": None, "out_ms": (0, 4 * _MARGIN), "back_ms": back + 2 * _MARGIN}


def _balance(
    pool: Pool,
    main: list[tuple[int, Endpoint]],
    common: dict[str, Any],
    route: Route,
    access: tuple[Access | None, ...],
    *,
    l4: bool,
    secret: bool,
    udp: bool,
) -> Iterator[ScheduledCase]:
    hit = common["request"]
    names = [f"{pool.name}-{n}" for n, _ in main]
    total = sum(endpoint.weight for _, endpoint in main)
    shares = {f"{pool.name}-{n}": endpoint.weight / total for n, endpoint in main}
    even = len(set(shares.values())) == 1
    marks = [f"{e.field}.{mark}" for e in pool.endpoints for mark in ("weight", "backup")]
    marks += [f"{e.field}.address" for e in pool.endpoints if not e.weight]  # where nothing may arrive
    places = (*marks, *(f"{e.field}.address" for _, e in main))
    balance = f"{pool.field}.balance"
    if len(pool.endpoints) > 1 and (len(main) < 2 or pool.balance in _COUNTED):
        if even or pool.balance is not Balance.LEAST_CONNECTIONS:
            times = TIMES if len(main) > 1 else _FEW
            share = {name: deviation_bounds(part) if len(main) > 1 else (_FEW, _FEW) for name, part in shares.items()}
            params = {**common, "times": times, "by": "name", "share": share}
            tried = places if pool.balance is Balance.LEAST_CONNECTIONS and len(main) > 1 else (*places, balance)
            yield first_case("6.balance", "shares_hold", hit, params, (_feature(pool),), route.name, tried=tried)
        if pool.balance is Balance.LEAST_CONNECTIONS and even and len(main) > 1 and not (secret or udp):
            least = "fewest_connections_are_next" if l4 else "least_loaded_is_next"
            params = {**common, "names": names}
            features = (_feature(pool),)
            yield first_case("6.balance.least", least, hit, params, features, route.name, tried=(balance,))
        return
    requests: list[Request] = []
    if pool.balance is Balance.SOURCE_HASH and len(main) > 1 and not hit.client.startswith("127."):
        clients = [distinct_client(80_000 + 251 * n, *access) for n in range(_keys(shares))]
        requests = [replace(hit, client=each) for each in clients if each is not None]
    elif pool.balance is Balance.HASH and len(main) > 1 and pool.hash_key is not None:
        requests = [_hashed(hit, pool.hash_key, n) for n in range(_keys(shares))]
    if requests:
        every = len(requests) == _keys(shares) < _MOST_KEYS
        params = {**common, "requests": requests, "names": names, "every": every}
        tried = (balance, *(places if every else marks))
        yield first_case(
            "6.balance", "equal_keys_stay", hit, params, (f"pool.balance.{pool.balance}",), route.name, tried=tried
        )


def _keys(shares: dict[str, float]) -> int:
    """So many keys that each endpoint gets one, even where a ring of hashes is uneven."""
    return max(_KEYS, min(_MOST_KEYS, ceil(log(_MISSED) / log(1 - min(shares.values()) / 2))))


def _feature(pool: Pool) -> str:
    counted = pool.balance in (Balance.LEAST_CONNECTIONS, Balance.RANDOM)
    return f"pool.balance.{pool.balance if counted else Balance.ROUND_ROBIN}"


def _hashed(hit: Request, key: Key, number: int) -> Request:
    if key.kind is KeyKind.QUERY:
        return replace(hit, target=f"{hit.target}{'&' if '?' in hit.target else '?'}{key.name}=verify-{number}")
    value = f"verify-{number}"
    return with_headers(hit, ("Cookie", f"{key.name}={value}") if key.kind is KeyKind.COOKIE else (key.name, value))


def deviation_bounds(share: float) -> tuple[int, int]:
    """How many of `TIMES` requests are drawn with that share, but for the rarest of runs."""
    off = _DEVIATIONS * sqrt(TIMES * share * (1 - share))
    return max(0, floor(TIMES * share - off)), min(TIMES, ceil(TIMES * share + off))
