"""Backends of pools: one per pool and set of times, shared by all routes that use the pool alike."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, field

from lbgen.engines.api import version_key
from lbgen.engines.haproxy.health_checks import active_statements
from lbgen.engines.haproxy.quote import argument
from lbgen.engines.haproxy.retries import retry_statements
from lbgen.engines.haproxy.statements import Statement, acl, deny, is_true, statement
from lbgen.engines.haproxy.timeouts import backend_statements, body_statements, duration, server_timeout
from lbgen.engines.haproxy.upstream_servers import Role, server_statements
from lbgen.engines.haproxy.view import Backend, Times
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Balance, Forward, PoolProtocol
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.haproxy.backend_selection import Choice
    from lbgen.engines.haproxy.statements import Word
    from lbgen.plan.model import Plan, Pool, Timeouts
    from lbgen.plan.policy import Compression, Retries

_Timers = tuple[int, int, int]


class _Draft(Struct):
    """A backend while its routes are collected. `other_times`: the keys of routes whose times differ from `times`."""

    name: str
    pool: Pool
    times: Timeouts
    retries: Retries | None
    compression: Compression | None
    l7: bool
    other_times: dict[Timeouts, list[str]] = field(default_factory=dict)

    def timers(self, version: str) -> _Timers:
        """Milliseconds of HAProxy's timers for a connection, a silent endpoint, and a tunnel."""
        times = self.times
        return times.connect, server_timeout(times, version) if self.l7 else times.idle, times.idle


class Backends(Struct):
    """The backends of a configuration by pool and times, named at first use.

    `taken`: names that other sections have.

    `keepalive_limited`: pools whose topology limits idle connections; without a limit HAProxy keeps as many as it used
    last, which is faster.
    """

    keepalive_limited: frozenset[str] = frozenset()
    version: str = "2.8"
    taken: frozenset[str] = frozenset()
    _drafts: dict[tuple[object, ...], _Draft] = field(default_factory=dict)
    _names: dict[str, list[str]] = field(default_factory=dict)  # by pool

    def for_choice(self, choice: Choice, plan: Plan) -> str:
        """The name of the backend that serves this target of an L7 route."""
        pool, key = plan.pool(choice.target.pool), choice.route_key.name
        route = plan.route(choice.route_key.route)
        action = route.action
        assert isinstance(action, Forward)  # noqa: S101  # only forwards have targets
        return self._draft(pool, action.timeouts, action.retries, route.compression, True, key).name

    def for_mirror(self, pool: Pool, times: Timeouts) -> str:
        """The name of the backend that gets copies of the requests of a route with those times."""
        return self._draft(pool, times, None, None, True, "").name

    def for_l4(self, pool: Pool, times: Timeouts) -> str:
        """The name of the backend with that pool's endpoints and those times for an L4 route."""
        return self._draft(pool, times, None, None, False, "").name

    def _draft(
        self, pool: Pool, times: Timeouts, retries: Retries | None, pack: Compression | None, l7: bool, key: str
    ) -> _Draft:
        # Routes share a backend that has state; their times are set per request.
        is_shared = l7 and has_state(pool)
        identity = (pool.name, times.connect if is_shared else times, retries, pack, l7)
        if identity not in self._drafts:
            names = self._names.setdefault(pool.name, [])
            name = f"{pool.name}:{len(names) + 1}" if names or pool.name in self.taken else pool.name
            names.append(name)
            self._drafts[identity] = _Draft(name, pool, times, retries, pack, l7)
        draft = self._drafts[identity]
        if key and times != draft.times and key not in (keys := draft.other_times.setdefault(times, [])):
            keys.append(key)
        return draft

    def pools(self) -> list[Pool]:
        """The pools of those backends."""
        return [draft.pool for draft in self._drafts.values()]

    def usual_times(self, l7: bool) -> Times:
        """The times of most L7 or L4 backends, which their section `defaults` has."""
        return _times(self._usual(l7))

    def _usual(self, l7: bool) -> _Timers:
        counted = Counter(draft.timers(self.version) for draft in self._drafts.values() if draft.l7 is l7)
        return max(counted, key=counted.__getitem__, default=(0, 0, 0))

    def views(self) -> tuple[Backend, ...]:
        """Every backend that a route uses."""
        usual = {l7: self._usual(l7) for l7 in (True, False)}
        return tuple(self._view(draft, usual) for draft in self._drafts.values())

    def _view(self, draft: _Draft, usual: Mapping[bool, _Timers]) -> Backend:
        pool, l7, timers = draft.pool, draft.l7, draft.timers(self.version)
        first = self._names[pool.name][0]
        tracked = first if first != draft.name else ""
        role = Role(l7, pool.name in self.keepalive_limited, tracked)
        return Backend(
            name=Atom(draft.name),
            origin=Atom(pool.field),
            l7=l7,
            repeats=Atom(pool.name) if tracked else None,
            balance=_balance(pool),
            is_hashed=pool.balance in (Balance.SOURCE_HASH, Balance.HASH),
            times=_times(timers) if timers != usual[l7] else None,
            statements=tuple(_statements(draft, tracked, self.version)),
            servers=tuple(server_statements(pool, role)),
        )


def _times(timers: _Timers) -> Times:
    return Times(*(Atom(duration(each)) for each in timers))


def has_state(pool: Pool) -> bool:
    """Whether a backend of this pool keeps what must not exist twice: health, connections under way."""
    return bool(pool.active or pool.passive or pool.max_per_endpoint or pool.slow_start)


def _statements(draft: _Draft, tracked: str, version: str) -> Iterator[Statement]:
    pool = draft.pool
    yield from _pool_statements(pool, draft.l7)
    if draft.retries:
        yield from retry_statements(draft.retries, pool)
    if not tracked:
        yield from active_statements(pool)
    if draft.compression:
        yield from _compression_statements(draft.compression, version, pool.field)
    if draft.l7:
        yield from body_statements(pool.field, draft.times, version, [])
    for other, keys in draft.other_times.items():
        yield from backend_statements(pool.field, other, version, keys)


def _pool_statements(pool: Pool, l7: bool) -> Iterator[Statement]:
    if any(endpoint.backup for endpoint in pool.endpoints):
        yield statement("option allbackups", origin=pool.field)
    if pool.sticky is not None and l7:
        options = ["insert indirect nocache httponly attr SameSite=Lax"]
        if pool.sticky.ttl is not None:
            options.append(f"attr Max-Age={pool.sticky.ttl}")
        if pool.sticky.secure:
            options.append("secure")
        yield statement("cookie", Literal(pool.sticky.cookie), *options, origin=f"{pool.field}.sticky")
    if pool.max_per_endpoint is not None:
        yield from _queue_statements(pool, l7)
    if pool.protocol is not PoolProtocol.HTTP1 and l7:
        if pool.tls is None:
            # For a path alone HAProxy writes the scheme https.
            set_scheme = "http-request set-uri http://%[req.fhdr(host)]%[pathq]"
            yield statement(set_scheme, when=[acl("pathq -m beg /")], origin=pool.field)
        yield statement("http-request set-header TE trailers", when=[is_true("txn.trailers")], origin=pool.field)


def _compression_statements(compression: Compression, version: str, origin: str) -> Iterator[Statement]:
    """HAProxy compresses only whole responses that are not encoded yet; versions before 3.1 know no least size."""
    yield statement("filter compression", origin=origin)
    yield statement("compression algo gzip", origin=origin)
    if version_key(version) >= (3, 1):
        yield statement(f"compression minsize-res {compression.min_size}", origin=origin)
    yield statement("compression type", *map(Literal, compression.types), origin=origin)


def _queue_statements(pool: Pool, l7: bool) -> Iterator[Statement]:
    """Without a queue a request waits for HAProxy's shortest time."""
    origin = f"{pool.field}.connections"
    yield statement(f"timeout queue {'1ms' if pool.queue is None else duration(pool.queue.timeout)}", origin=origin)
    if l7 and pool.queue is not None:
        yield deny(503, [acl(f"queue ge {pool.queue.size}")], origin)


def _balance(pool: Pool) -> tuple[Word, ...]:
    match pool.balance:
        case Balance.ROUND_ROBIN:
            return ()  # of `defaults`
        case Balance.LEAST_CONNECTIONS:
            return (Atom("leastconn"),)
        case Balance.SOURCE_HASH:
            return (Atom("source"),)
        case Balance.RANDOM:
            return (Atom("random(1)"),)
        case Balance.HASH:
            return (Atom("hash"), Literal(_hash_key(pool)))
        case _:
            assert_never(pool.balance)


def _hash_key(pool: Pool) -> str:
    key = pool.hash_key
    if key is None:
        raise ValueError(f"pool {pool.name} has no hash key")
    match key.kind:
        case KeyKind.HEADER:
            return f"req.fhdr({argument(key.name)})"
        case KeyKind.COOKIE:
            return f"req.cook({argument(key.name)})"
        case KeyKind.QUERY:
            return f"url_param({argument(key.name)})"
        case _:
            raise ValueError(f"pool {pool.name} hashes by {key.kind}")
