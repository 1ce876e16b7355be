"""Pools and routes that answer by themselves -> backends: one per pool and set of times, shared by all routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.haproxy.compression import marking_lines
from lbgen.engines.haproxy.headers import TAIL
from lbgen.engines.haproxy.quote import Sample, argument, log_format, lua_argument
from lbgen.engines.haproxy.retries import retry_lines
from lbgen.engines.haproxy.statements import Line, Word, line
from lbgen.engines.haproxy.timeouts import connect, filtered, silence
from lbgen.engines.haproxy.upstream_servers import NEVER, Role, check_lines, is_name, server_lines
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Balance, Forward, PoolProtocol, Redirect, Respond
from lbgen.plan.policy import KeyKind
from lbgen.records import record

if TYPE_CHECKING:
    from lbgen.engines.haproxy.backend_selection import Choice
    from lbgen.engines.haproxy.lookup import Lookup
    from lbgen.engines.haproxy.matching import RouteKey
    from lbgen.plan.model import Listener, Pool, Timeouts
    from lbgen.plan.policy import PassiveHealth, Retries

_LONG = 10**15  # microseconds
_PORTS = {"http": 80, "https": 443}


@record
class Backend:
    """A pool's endpoints with one set of times. `late` is the time in microseconds from which a failed connection
    attempt counts as timed out; `vacant`: it may be without an endpoint; `lines` are what the pool and the retries of
    its routes ask for beyond that."""

    name: Atom
    pool: Atom
    origin: Atom
    l7: bool
    balance: tuple[Atom | Literal, ...]
    hashed: bool
    connect: Atom
    response: Atom
    idle: Atom
    late: int
    vacant: bool
    lines: tuple[Line, ...]
    servers: tuple[Line, ...]


@record
class Answer:
    """A route that answers by itself."""

    name: Atom
    origin: Atom
    lines: tuple[Line, ...]


@dataclass(slots=True)
class _Draft:
    """A backend while routes are found that it serves: `times` by the keys of those that differ from its own; `held`
    are the keys of those that hold requests until their bodies are there, `flows`: some do not; `packs`: some of them
    compress."""

    name: str
    pool: Pool
    own: Timeouts
    retries: Retries | None
    l7: bool
    times: dict[Timeouts, list[str]] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    flows: bool = False
    packs: bool = False


@dataclass(slots=True)
class Backends:
    """The backends of a configuration by pool and times, named when first asked for. `limited`: pools whose topology
    says how many idle connections are kept; without a limit HAProxy keeps what it needed last, which is faster."""

    limited: frozenset[str] = frozenset()
    _drafts: dict[tuple[object, ...], _Draft] = field(default_factory=dict)
    _used: dict[str, list[str]] = field(default_factory=dict)

    def of(self, choice: Choice, lookup: Lookup) -> str:
        """The name of the backend that serves this target of an L7 route."""
        route = lookup.route(choice.route_key.route)
        action = route.action
        assert isinstance(action, Forward)  # noqa: S101  # only forwards have targets
        pool = lookup.pool(choice.target.pool)
        draft = self._draft(pool, action.timeouts, action.retries, True, choice.route_key.name)
        draft.packs = draft.packs or route.compression is not None
        if not action.buffering.request:
            draft.flows = True
        elif choice.route_key.name not in draft.held:
            draft.held.append(choice.route_key.name)
        return draft.name

    def name(self, pool: Pool, times: Timeouts) -> str:
        """The name of the backend with that pool's endpoints and those times for an L4 route; the first one has the
        pool's name."""
        return self._draft(pool, times, None, False, "").name

    def mirror(self, pool: Pool, times: Timeouts) -> str:
        """The name of the backend that takes copies for that pool."""
        return self._draft(pool, times, None, True, "").name

    def _draft(self, pool: Pool, times: Timeouts, retries: Retries | None, l7: bool, key: str) -> _Draft:
        # Where a backend knows how its endpoints fare, routes share it: their times are set request by request.
        shared = l7 and counts(pool)
        identity = (pool.name, connect(times) if shared else times, retries, l7)
        if identity not in self._drafts:
            names = self._used.setdefault(pool.name, [])
            name = f"{pool.name}:{len(names) + 1}" if names else pool.name
            names.append(name)
            self._drafts[identity] = _Draft(name, pool, times, retries, l7)
        draft = self._drafts[identity]
        if key and times != draft.own and key not in (keys := draft.times.setdefault(times, [])):
            keys.append(key)
        return draft

    def all(self) -> tuple[Backend, ...]:
        """Every backend that was asked for."""
        return tuple(self._backend(draft) for draft in self._drafts.values())

    @property
    def needs_a_check_that_passes(self) -> bool:
        """Whether some endpoint is in or out by other means than checks."""
        return any(
            not draft.pool.active and (draft.pool.passive or draft.pool.slow_start) for draft in self._drafts.values()
        )

    def pools(self) -> list[Pool]:
        """The pools of those backends."""
        return [draft.pool for draft in self._drafts.values()]

    def _backend(self, draft: _Draft) -> Backend:
        pool, times, l7 = draft.pool, draft.own, draft.l7
        # The clock of the statements and the clock of the timer differ by some milliseconds, hence the margin.
        late = connect(times) * 950 if connect(times) else _LONG
        balance, hashed = _balance(pool)
        first = self._used[pool.name][0]
        tracked = first if first != draft.name else ""
        lines = _pool_lines(pool, l7)
        if draft.retries:
            lines += retry_lines(draft.retries, pool, draft.held, flows=draft.flows)
        if not tracked:
            lines += check_lines(pool)
        if l7 and (waited := max(times.response, times.idle)) and filtered(times, draft.retries):
            # The filter leaves handshakes alone.
            handshake = f"http-request set-timeout server {waited}ms if {{ var(txn.websocket) -m bool }}"
            lines.append(line(pool.field, handshake))
        if draft.packs:
            lines += marking_lines(pool.field)
        for other, keys in draft.times.items():
            lines += _times_lines(pool.field, other, draft.retries, keys)
        return Backend(
            name=Atom(draft.name),
            pool=Atom(pool.name),
            origin=Atom(pool.field),
            l7=l7,
            balance=balance,
            hashed=hashed,
            connect=Atom(milliseconds(connect(times))),
            response=Atom(milliseconds(silence(times, draft.retries) if l7 else times.idle)),
            idle=Atom(milliseconds(times.idle)),
            late=late,
            vacant=l7 and (pool.active is not None or pool.passive is not None or any(map(is_name, pool.endpoints))),
            lines=tuple(lines),
            servers=tuple(server_lines(pool, Role(draft.name, l7, pool.name in self.limited, tracked, draft.retries))),
        )


def counts(pool: Pool) -> bool:
    """Whether a backend of this pool keeps what must not be kept twice: health, connections under way."""
    return bool(pool.active or pool.passive or pool.max_per_endpoint or pool.slow_start)


def milliseconds(time: int) -> str:
    """A time as HAProxy writes it; 0 is no limit."""
    return f"{time}ms" if time else NEVER


def _times_lines(origin: str, times: Timeouts, retries: Retries | None, keys: list[str]) -> list[Line]:
    pieces = [keys[i : i + 40] for i in range(0, len(keys), 40)]
    return [
        line(
            origin,
            f"http-request set-timeout {side} {milliseconds(time)}",
            f"if {{ var(txn.route) -m str {' '.join(piece)} }}",
        )
        for piece in pieces
        for side, time in (("server", silence(times, retries)), ("tunnel", times.idle))
    ]


def _pool_lines(pool: Pool, l7: bool) -> list[Line]:
    lines = []
    if any(endpoint.backup for endpoint in pool.endpoints):
        lines.append(line(pool.field, "option allbackups"))
    if pool.sticky is not None and l7:
        words: list[str | Word] = ["cookie", Literal(pool.sticky.cookie), "insert httponly attr SameSite=Lax"]
        if pool.sticky.ttl is not None:
            words.append(f"attr Max-Age={pool.sticky.ttl}")
        if pool.sticky.secure:
            words.append("secure")
        lines.append(line(f"{pool.field}.sticky", *words))
    if pool.max_per_endpoint is not None:
        lines += _queue_lines(pool, l7)
    if pool.protocol is not PoolProtocol.HTTP1 and l7:
        # HAProxy speaks no HTTP/2 without an authority, which HTTP/1.0 may leave out.
        lines.append(line(pool.field, "http-request set-header Host no-host.invalid if !{ req.fhdr(host) -m found }"))
    if pool.protocol is PoolProtocol.GRPC:
        lines.append(line(pool.field, "http-request set-header TE trailers if { var(txn.trailers) -m bool }"))
    if pool.passive is not None and l7:
        lines += _judged_lines(pool.passive, f"{pool.field}.health.passive")
    return lines


def _judged_lines(passive: PassiveHealth, origin: str) -> list[Line]:
    """A 503 of HAProxy's own is nobody's failure; answers that are good count while some endpoint has failed."""
    judge = f"http-after-response set-var(txn.judged) lua.judged({passive.failures},{passive.eject_for})"
    return [
        line(origin, judge, "if { status ge 500 } !{ status 503 }"),
        line(origin, judge, "if { status 503 } { bc_err -m found }"),
        line(origin, judge, "if { status lt 500 } { var(proc.sick) -m int gt 0 }"),
    ]


def _queue_lines(pool: Pool, l7: bool) -> list[Line]:
    """Without a queue a request waits for the shortest time there is."""
    origin = f"{pool.field}.connections"
    clock = (
        [line(origin, "http-request unset-var(txn.sent)")] if l7 else []
    )  # set by the try to connect, after the wait
    if pool.queue is None:
        return [*clock, line(origin, "timeout queue 1ms")]
    lines = [*clock, line(origin, f"timeout queue {milliseconds(pool.queue.timeout)}")]
    if l7:
        answer = ("http-request return status 503 content-type text/plain string", Literal("Service Unavailable\n"))
        lines.append(line(origin, *answer, f"if {{ queue ge {pool.queue.size} }}"))
    return lines


def _balance(pool: Pool) -> tuple[tuple[Atom | Literal, ...], bool]:
    match pool.balance:
        case Balance.ROUND_ROBIN:
            return (Atom("roundrobin"),), False
        case Balance.LEAST_CONNECTIONS:
            return (Atom("leastconn"),), False
        case Balance.SOURCE_HASH:
            return (Atom("source"),), True
        case Balance.RANDOM:
            return (Atom("random(1)"),), False
        case Balance.HASH:
            return (Atom("hash"), Literal(_hashed(pool))), True
        case _:
            assert_never(pool.balance)


def _hashed(pool: Pool) -> str:
    key = pool.hash_key
    if key is None:
        raise ValueError(f"pool {pool.name} hashes nothing")
    match key.kind:
        case KeyKind.HEADER:
            return f"req.fhdr({argument(key.name)})"
        case KeyKind.COOKIE:
            return f"req.cook({argument(key.name)})"
        case KeyKind.QUERY:
            return f"query,lua.query_value({lua_argument(key.name)})"
        case _:
            raise ValueError(f"pool {pool.name} hashes by {key.kind}")


def answer(route_key: RouteKey, lookup: Lookup, listener: Listener) -> tuple[str, Answer]:
    """The backend of a route that redirects or responds, and its name."""
    route = lookup.route(route_key.route)
    name = f"route:{listener.name}:{route_key.name}".replace("/", ":")
    match route.action:
        case Redirect():
            lines = _redirect(route.action, route_key, listener)
        case Respond():
            lines = _respond(route.action, route.field)
        case Forward():
            raise ValueError(f"route {route.name} forwards")
        case _:
            assert_never(route.action)
    return name, Answer(Atom(name), Atom(route.field), tuple(lines))


def _redirect(redirect: Redirect, route_key: RouteKey, listener: Listener) -> list[Line]:
    scheme = redirect.scheme or listener.scheme
    port = redirect.port or (_PORTS[scheme] if redirect.scheme else listener.client_port)
    shown = "" if port == _PORTS[scheme] else f":{port}"
    lines = [line(route_key.origin, "http-request set-var(txn.query) url,regsub('^[^?]*',)")]
    if redirect.host is None:  # only HTTP/1.0 has requests without a host
        own = f"[{listener.address}]" if ":" in listener.address else listener.address
        condition = "if !{ var(txn.host) -m len 1: }"
        lines.append(line(route_key.origin, f"http-request set-var(txn.host) str({own})", condition))
    start = (f"{scheme}://", redirect.host or Sample("var(txn.host)"), shown)
    status = f"http-request return status {redirect.status} hdr Location"
    query = Sample("var(txn.query)")
    if redirect.path is not None:
        return [*lines, line(route_key.origin, status, Literal(log_format(*start, redirect.path, query)))]
    if redirect.prefix is None:
        return [*lines, line(route_key.origin, status, Literal(log_format(*start, Sample("path"), query)))]
    lead = redirect.prefix.rstrip("/")
    bare = line(route_key.origin, status, Literal(log_format(*start, lead or "/", query)))
    if route_key.stripped is None:
        return [*lines, bare]
    longer = Literal(log_format(*start, f"{lead}/", Sample(f"var({TAIL})"), query))
    return [*lines, line(route_key.origin, status, longer, f"if {{ var({TAIL}) -m found }}"), bare]


def _respond(respond: Respond, origin: str) -> list[Line]:
    words: list[str | Literal] = [f"http-request return status {respond.status}"]
    body = bool(respond.body) and respond.status not in (204, 304)
    after = []
    for name, value in respond.headers:
        if name == "content-type" and body:
            words += ["content-type", Literal(value)]
        elif name == "content-type":  # without a body the statement drops it
            after.append(line(origin, "http-after-response set-header content-type", Literal(log_format(value))))
        else:
            words += ["hdr", Literal(name), Literal(log_format(value))]
    if body:
        words += ["string", Literal(respond.body)]
    return [line(origin, *words), *after]
