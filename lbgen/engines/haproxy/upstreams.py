"""Backends of pools: one per pool and set of times, shared by all routes that use the pool alike."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, field

from lbgen.engines.haproxy import compression
from lbgen.engines.haproxy.health_checks import active_statements, needs_passing_check, passive_statements
from lbgen.engines.haproxy.quote import argument, lua_argument
from lbgen.engines.haproxy.retries import keeps_requests, retry_statements
from lbgen.engines.haproxy.statements import Statement, acl, is_true, return_text, set_var, statement
from lbgen.engines.haproxy.timeouts import (
    backend_statements,
    connect_time,
    duration,
    is_filtered,
    server_timeout,
)
from lbgen.engines.haproxy.upstream_servers import Role, is_resolved, server_statements
from lbgen.engines.haproxy.view import Backend, Times
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Balance, Forward, PoolProtocol
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.haproxy.backend_selection import Choice
    from lbgen.engines.haproxy.statements import Word
    from lbgen.plan.model import Plan, Pool, Timeouts
    from lbgen.plan.policy import Retries

_LONG = 10**15  # microseconds
_Timers = tuple[int, int, int]


class _Draft(Struct):
    """A backend while its routes are collected. `other_times`: the keys of routes whose times differ from `times`;
    `held`: the keys of routes that buffer requests; `streams`: some route does not; `compresses`: some route does."""

    name: str
    pool: Pool
    times: Timeouts
    retries: Retries | None
    l7: bool
    other_times: dict[Timeouts, list[str]] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    streams: bool = False
    compresses: bool = False

    def timers(self) -> _Timers:
        """Milliseconds of HAProxy's timers for a connection, a response and silence."""
        times = self.times
        return connect_time(times), server_timeout(times, self.retries) if self.l7 else times.idle, times.idle


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
        draft = self._draft(pool, action.timeouts, action.retries, True, key)
        draft.compresses = draft.compresses or route.compression is not None
        if not action.buffering.request:
            draft.streams = True
        elif key not in draft.held:
            draft.held.append(key)
        return draft.name

    def for_l4(self, pool: Pool, times: Timeouts) -> str:
        """The name of the backend with that pool's endpoints and those times for an L4 route."""
        return self._draft(pool, times, None, False, "").name

    def for_mirror(self, pool: Pool, times: Timeouts) -> str:
        """The name of the backend that takes copies of requests for that pool."""
        return self._draft(pool, times, None, True, "").name

    def _draft(self, pool: Pool, times: Timeouts, retries: Retries | None, l7: bool, key: str) -> _Draft:
        # Routes share a backend that has state; their times are set per request.
        is_shared = l7 and has_state(pool)
        identity = (pool.name, connect_time(times) if is_shared else times, retries, l7)
        if identity not in self._drafts:
            names = self._names.setdefault(pool.name, [])
            name = f"{pool.name}:{len(names) + 1}" if names or pool.name in self.taken else pool.name
            names.append(name)
            self._drafts[identity] = _Draft(name, pool, times, retries, l7)
        draft = self._drafts[identity]
        if key and times != draft.times and key not in (keys := draft.other_times.setdefault(times, [])):
            keys.append(key)
        return draft

    def pools(self) -> list[Pool]:
        """The pools of those backends."""
        return [draft.pool for draft in self._drafts.values()]

    def needs_passing_check(self) -> bool:
        """Whether some servers are checked against the frontend that accepts every connection."""
        return any(map(needs_passing_check, self.pools()))

    def usual_times(self, l7: bool) -> Times:
        """The times of most L7 or L4 backends, which their section `defaults` has."""
        return _times(self._usual(l7))

    def _usual(self, l7: bool) -> _Timers:
        counted = Counter(draft.timers() for draft in self._drafts.values() if draft.l7 is l7)
        return max(counted, key=counted.__getitem__, default=(0, 0, 0))

    def views(self) -> tuple[Backend, ...]:
        """Every backend that a route uses."""
        usual = {l7: self._usual(l7) for l7 in (True, False)}
        return tuple(self._view(draft, usual) for draft in self._drafts.values())

    def _view(self, draft: _Draft, usual: Mapping[bool, _Timers]) -> Backend:
        pool, l7, timers = draft.pool, draft.l7, draft.timers()
        first = self._names[pool.name][0]
        tracked = first if first != draft.name else ""
        role = Role(draft.name, l7, pool.name in self.keepalive_limited, tracked, draft.retries)
        return Backend(
            name=Atom(draft.name),
            origin=Atom(pool.field),
            l7=l7,
            repeats=Atom(pool.name) if tracked else None,
            balance=_balance(pool),
            is_hashed=pool.balance in (Balance.SOURCE_HASH, Balance.HASH),
            times=_times(timers) if timers != usual[l7] else None,
            may_be_empty=l7 and bool(pool.active or pool.passive or any(map(is_resolved, pool.endpoints))),
            retries=draft.retries is not None,
            answers_closed=self.version != "2.6" and l7 and not keeps_requests(draft.retries),
            compresses=draft.compresses,
            statements=tuple(_statements(draft, tracked)),
            servers=tuple(server_statements(pool, role)),
        )


def _times(timers: _Timers) -> Times:
    connect, response, idle = timers
    return Times(
        connect=Atom(duration(connect)),
        response=Atom(duration(response)),
        idle=Atom(duration(idle)),
        # Statements and timers read clocks that differ by some milliseconds, hence 95 %.
        late=connect * 950 or _LONG,
    )


def has_state(pool: Pool) -> bool:
    """Whether a backend of this pool keeps what must not exist twice: health, connections under way."""
    return bool(pool.active or pool.passive or pool.max_per_endpoint or pool.slow_start)


def _statements(draft: _Draft, tracked: str) -> Iterator[Statement]:
    pool, times, retries = draft.pool, draft.times, draft.retries
    yield from _pool_statements(pool, draft.l7)
    if retries:
        yield from retry_statements(retries, pool, draft.held, streams=draft.streams)
    if not tracked:
        yield from active_statements(pool)
    if draft.l7 and (waited := max(times.response, times.idle)) and is_filtered(times, retries):
        # The filter does not watch WebSocket handshakes.
        set_timeout = f"http-request set-timeout server {duration(waited)}"
        yield statement(set_timeout, when=[is_true("txn.websocket")], origin=pool.field)
    if draft.compresses:
        yield from compression.response_statements(pool.field)
    for other, keys in draft.other_times.items():
        yield from backend_statements(pool.field, other, retries, keys)


def _pool_statements(pool: Pool, l7: bool) -> Iterator[Statement]:
    if any(endpoint.backup for endpoint in pool.endpoints):
        yield statement("option allbackups", origin=pool.field)
    if pool.sticky is not None and l7:
        options = ["insert httponly attr SameSite=Lax"]
        if pool.sticky.ttl is not None:
            options.append(f"attr Max-Age={pool.sticky.ttl}")
        if pool.sticky.secure:
            options.append("secure")
        yield statement("cookie", Literal(pool.sticky.cookie), *options, origin=f"{pool.field}.sticky")
    if pool.max_per_endpoint is not None:
        yield from _queue_statements(pool, l7)
    if pool.protocol is not PoolProtocol.HTTP1 and l7:
        # HTTP/2 needs an authority, and a request of HTTP/1.0 may have no Host.
        set_host = "http-request set-header Host no-host.invalid"
        yield statement(set_host, when=[~acl("req.fhdr(host) -m found")], origin=pool.field)
        if pool.tls is None:
            # For a path alone HAProxy writes the scheme https. An odd Host must not change the path.
            set_scheme = "http-request set-uri http://%[req.fhdr(host)]%[pathq]"
            plain = [acl("req.fhdr(host) -m reg", Literal("^[][A-Za-z0-9._:-]+$")), acl("pathq -m beg /")]
            yield statement(set_scheme, when=plain, origin=pool.field)
    if pool.protocol is PoolProtocol.GRPC:
        yield statement("http-request set-header TE trailers", when=[is_true("txn.trailers")], origin=pool.field)
    if l7:
        yield from passive_statements(pool)


def _queue_statements(pool: Pool, l7: bool) -> Iterator[Statement]:
    """Without a queue a request waits for HAProxy's shortest time."""
    origin = f"{pool.field}.connections"
    if l7:  # the try to connect sets it again, after the wait
        yield set_var("txn.queued", "date(0,us)", origin=origin)
        yield statement("http-request unset-var(txn.sent)", origin=origin)
    yield statement(f"timeout queue {'1ms' if pool.queue is None else duration(pool.queue.timeout)}", origin=origin)
    if l7 and pool.queue is not None:
        is_full = acl(f"queue ge {pool.queue.size}")
        yield return_text(503, Literal("Service Unavailable\n"), when=[is_full], origin=origin)


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
            return f"query,lua.query_value({lua_argument(key.name)})"
        case _:
            raise ValueError(f"pool {pool.name} hashes by {key.kind}")
