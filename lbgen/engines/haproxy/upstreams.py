"""Backends of pools: one per pool and set of times, shared by all routes that use the pool alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from math import gcd

from msgspec import Struct, field

from lbgen.engines.haproxy.backend_selection import Choice
from lbgen.engines.haproxy.connections import is_resolved
from lbgen.engines.haproxy.error_pages import failure_pages
from lbgen.engines.haproxy.features import FEATURES
from lbgen.engines.haproxy.quote import argument
from lbgen.engines.haproxy.statements import Statement, Word, statement
from lbgen.engines.haproxy.timeouts import duration, server_timeout
from lbgen.engines.haproxy.view import Backend, PoolUse, Times
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Balance, Forward, Plan, Pool, Route, Timeouts
from lbgen.plan.policy import KeyKind

_MAX_WEIGHT = 256
# These place endpoints on a ring in numbers that follow their weights; small numbers would share requests unevenly.
_ON_A_RING = (Balance.RANDOM, Balance.HASH)
_BALANCES: dict[Balance, tuple[Word, ...]] = {
    Balance.ROUND_ROBIN: (),  # of `defaults`
    Balance.LEAST_CONNECTIONS: (Atom("leastconn"),),
    Balance.SOURCE_HASH: (Atom("source"),),
    Balance.RANDOM: (Atom("random(1)"),),
}
_HASH_KEYS = {KeyKind.HEADER: "req.fhdr", KeyKind.COOKIE: "req.cook", KeyKind.QUERY: "url_param"}
_Timers = tuple[int, int, int]


def _timers(use: PoolUse) -> _Timers:
    """Milliseconds of HAProxy's timers for a connection, a silent endpoint, and a tunnel."""
    times = use.times
    return times.connect, server_timeout(times, use.version) if use.l7 else times.idle, times.idle


class Backends(Struct):
    """The backends of a configuration by pool and times, named at first use. `taken`: names that other sections have;
    `keepalive_limited`: pools whose topology limits idle connections; `has_pages`: listeners have error pages."""

    keepalive_limited: frozenset[str]
    has_pages: bool
    version: str
    taken: frozenset[str]
    _uses: dict[tuple[object, ...], PoolUse] = field(default_factory=dict)
    _names: dict[str, list[str]] = field(default_factory=dict)  # by pool

    def for_choice(self, choice: Choice, plan: Plan) -> str:
        """The name of the backend that serves this target of an L7 route."""
        route = plan.route(choice.route_key.route)
        assert isinstance(route.action, Forward)  # noqa: S101  # only forwards have targets
        return self.name(plan.pool(choice.target.pool), route.action.timeouts, True, route, choice.route_key.name)

    def name(self, pool: Pool, times: Timeouts, l7: bool = True, route: Route | None = None, key: str = "") -> str:
        """The name of the backend with that pool's endpoints for a route with those times; without `route` and its
        `key` that of an L4 route, or of copies."""
        action = None if route is None else route.action
        retries = action.retries if isinstance(action, Forward) else None
        pack = None if route is None else route.compression
        pages = () if route is None else failure_pages(route.error_pages)
        # Routes share a backend that has state; their times are set per request.
        is_shared = l7 and bool(pool.active or pool.passive or pool.max_per_endpoint or pool.slow_start)
        identity = (pool.name, times.connect if is_shared else times, retries, pack, pages, l7)
        if identity not in self._uses:
            names = self._names.setdefault(pool.name, [])
            name = f"{pool.name}:{len(names) + 1}" if names or pool.name in self.taken else pool.name
            limited = pool.name in self.keepalive_limited
            alone = any(endpoint.addresses > 1 for endpoint in pool.endpoints)  # no template can track one
            tracked = names[0] if names and not alone else ""
            names.append(name)
            made = PoolUse(
                name, pool, times, retries, pack, l7, self.version, limited, tracked, pages, self.has_pages, {}
            )
            self._uses[identity] = made
        use = self._uses[identity]
        if key and times != use.times and key not in (keys := use.other_times.setdefault(times, [])):
            keys.append(key)
        return use.name

    def usual_times(self, l7: bool) -> Times:
        """The times of most L7 or L4 backends, which their section `defaults` has."""
        return _times(self._usual(l7))

    def _usual(self, l7: bool) -> _Timers:
        counted = Counter(_timers(use) for use in self._uses.values() if use.l7 is l7)
        return max(counted, key=counted.__getitem__, default=(0, 0, 0))

    def views(self) -> tuple[Backend, ...]:
        """Every backend that a route uses."""
        usual = {l7: self._usual(l7) for l7 in (True, False)}
        return tuple(_view(use, usual[use.l7]) for use in self._uses.values())


def _view(use: PoolUse, usual: _Timers) -> Backend:
    pool, timers = use.pool, _timers(use)
    return Backend(
        name=Atom(use.name),
        origin=Atom(pool.field),
        l7=use.l7,
        repeats=Atom(pool.name) if use.tracked else None,
        balance=_balance(pool),
        is_hashed=pool.balance in (Balance.SOURCE_HASH, Balance.HASH),
        times=_times(timers) if timers != usual else None,
        statements=tuple(each for feature in FEATURES if feature.backend for each in feature.backend(use)),
        servers=tuple(_servers(use)),
    )


def _servers(use: PoolUse) -> Iterator[Statement]:
    """One line per endpoint."""
    for n, (endpoint, weight) in enumerate(zip(use.pool.endpoints, weights(use.pool), strict=True), 1):
        is_localhost = not endpoint.is_ip and not is_resolved(endpoint)  # HAProxy would ask a DNS server for it
        address = f"127.0.0.1:{endpoint.port}" if is_localhost else endpoint.authority
        own = [word for each in FEATURES if each.server for word in each.server(use, n, endpoint)]
        options = [*([] if weight == 1 else [f"weight {weight}"]), *own]
        first = f"server s{n}" if endpoint.addresses == 1 else f"server-template s{n}- {endpoint.addresses}"
        yield statement(first, address, *options, origin=endpoint.field)


def weights(pool: Pool) -> list[int]:
    """The endpoints' weights, 0 to 256 as in the topology."""
    weights = [endpoint.weight for endpoint in pool.endpoints]
    if pool.balance not in _ON_A_RING:
        return weights
    divisor = reduce(gcd, weights) or 1
    reduced = [weight // divisor for weight in weights]
    return [weight * (_MAX_WEIGHT // max([*reduced, 1])) for weight in reduced]


def _times(timers: _Timers) -> Times:
    return Times(*(Atom(duration(each)) for each in timers))


def _balance(pool: Pool) -> tuple[Word, ...]:
    if pool.balance is not Balance.HASH:
        return _BALANCES[pool.balance]
    if pool.hash_key is None:
        raise ValueError(f"pool {pool.name} has no hash key")
    fetch = _HASH_KEYS[pool.hash_key.kind]
    return (Atom("hash"), Literal(f"{fetch}({argument(pool.hash_key.name)})"))
