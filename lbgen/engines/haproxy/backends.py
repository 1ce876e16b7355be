"""Pools and routes that answer by themselves -> backends: one per pool and set of times, shared by all routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from math import gcd
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.haproxy.edits import TAIL
from lbgen.engines.haproxy.lines import Line, line
from lbgen.engines.haproxy.quote import Sample, log_format
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Balance, Forward, Redirect, Respond
from lbgen.records import record

if TYPE_CHECKING:
    from lbgen.engines.haproxy.index import Index
    from lbgen.engines.haproxy.tables import Way
    from lbgen.engines.haproxy.targets import Choice
    from lbgen.plan.model import Listener, Pool, Timeouts

MAX_WEIGHT = 256
UNLIMITED = "24d"  # HAProxy warns about a missing time, and 24 days is the longest it counts
_NEVER = 10**15  # microseconds
_PORTS = {"http": 80, "https": 443}


@record
class Backend:
    """A pool's endpoints with one set of times. `late` is the time in microseconds from which a failed connection
    attempt counts as timed out; `resolved`: it has names, so it may be without an endpoint."""

    name: Atom
    origin: Atom
    l7: bool
    balance: Atom
    hashed: bool
    connect: Atom
    response: Atom
    idle: Atom
    late: int
    resolved: bool
    servers: tuple[Line, ...]


@record
class Answer:
    """A route that answers by itself."""

    name: Atom
    origin: Atom
    lines: tuple[Line, ...]


@dataclass(slots=True)
class Backends:
    """The backends of a configuration by pool and times, named when first asked for. `limited`: pools whose topology
    says how many idle connections are kept; without a limit HAProxy keeps what it needed last, which is faster."""

    limited: frozenset[str] = frozenset()
    found: dict[tuple[str, Timeouts, bool], Backend] = field(default_factory=dict)
    _used: dict[str, int] = field(default_factory=dict)

    def of(self, choice: Choice, index: Index) -> str:
        """The name of the backend that serves this target of an L7 route."""
        action = index.route(choice.way.route).action
        assert isinstance(action, Forward)  # noqa: S101  # only forwards have targets
        return self.name(index.pool(choice.target.pool), action.timeouts, True)

    def name(self, pool: Pool, times: Timeouts, l7: bool) -> str:
        """The name of the backend with that pool's endpoints and those times; the first one has the pool's name."""
        key = (pool.name, times, l7)
        if key not in self.found:
            self._used[pool.name] = number = self._used.get(pool.name, 0) + 1
            name = pool.name if number == 1 else f"{pool.name}:{number}"
            self.found[key] = _backend(name, pool, times, l7, pool.name in self.limited)
        return self.found[key].name.text


def milliseconds(time: int) -> str:
    """A time as HAProxy writes it; 0 is no limit."""
    return f"{time}ms" if time else UNLIMITED


def _backend(name: str, pool: Pool, times: Timeouts, l7: bool, limited: bool) -> Backend:
    # The clock of the statements and the clock of the timer differ by some milliseconds, hence the margin.
    late = times.connect * 950 if times.connect else _NEVER
    balance, hashed = _balance(pool.balance)
    return Backend(
        name=Atom(name),
        origin=Atom(pool.field),
        l7=l7,
        balance=Atom(balance),
        hashed=hashed,
        connect=Atom(milliseconds(times.connect)),
        response=Atom(milliseconds(times.response if l7 else times.idle)),
        idle=Atom(milliseconds(times.idle)),
        late=late,
        resolved=any(_is_name(endpoint.host, endpoint.is_ip) for endpoint in pool.endpoints),
        servers=tuple(_servers(pool, limited)),
    )


def _balance(balance: Balance) -> tuple[str, bool]:
    match balance:
        case Balance.ROUND_ROBIN:
            return "roundrobin", False
        case Balance.LEAST_CONNECTIONS:
            return "leastconn", False
        case Balance.SOURCE_HASH:
            return "source", True
        case Balance.RANDOM | Balance.HASH:
            raise ValueError(f"balance {balance} was refused before")
        case _:
            assert_never(balance)


def weights(pool: Pool) -> tuple[list[int], bool]:
    """The endpoints' weights as HAProxy takes them (0 to 256), and whether their ratios are the same as written."""
    written = [endpoint.weight for endpoint in pool.endpoints]
    divisor = reduce(gcd, written) or 1
    reduced = [weight // divisor for weight in written]
    most = max(reduced, default=0)
    if most <= MAX_WEIGHT:
        kept = written if max(written, default=0) <= MAX_WEIGHT else reduced
        return kept, True
    return [max(1, round(weight * MAX_WEIGHT / most)) if weight else 0 for weight in reduced], False


def _servers(pool: Pool, limited: bool) -> list[Line]:
    lines = []
    for number, (endpoint, weight) in enumerate(zip(pool.endpoints, weights(pool)[0], strict=True), 1):
        words = [f"server s{number}", endpoint.authority, f"weight {weight}"]
        if _is_name(endpoint.host, endpoint.is_ip):
            words.append("resolvers dns init-addr none")
        elif not endpoint.is_ip:  # no DNS server needs to know that name
            words[1] = f"127.0.0.1:{endpoint.port}"
        if limited:
            words.append(f"pool-max-conn {pool.keepalive}")
        lines.append(line(endpoint.field, *words))
    return lines


def _is_name(host: str, is_ip: bool) -> bool:
    return not is_ip and host != "localhost"


def answer(way: Way, index: Index, listener: Listener) -> tuple[str, Answer]:
    """The backend of a route that redirects or responds, and its name."""
    route = index.route(way.route)
    name = f"route:{listener.name}:{way.key}".replace("/", ":")
    match route.action:
        case Redirect():
            lines = _redirect(route.action, way, listener)
        case Respond():
            lines = _respond(route.action, route.field)
        case Forward():
            raise ValueError(f"route {route.name} forwards")
        case _:
            assert_never(route.action)
    return name, Answer(Atom(name), Atom(route.field), tuple(lines))


def _redirect(redirect: Redirect, way: Way, listener: Listener) -> list[Line]:
    scheme = redirect.scheme or "http"
    port = redirect.port or (_PORTS[scheme] if redirect.scheme else listener.port)
    shown = "" if port == _PORTS[scheme] else f":{port}"
    lines = [line(way.origin, "http-request set-var(txn.query) url,regsub('^[^?]*',)")]
    if redirect.host is None:  # only HTTP/1.0 has requests without a host
        own = f"[{listener.address}]" if ":" in listener.address else listener.address
        condition = "if !{ var(txn.host) -m len 1: }"
        lines.append(line(way.origin, f"http-request set-var(txn.host) str({own})", condition))
    start = (f"{scheme}://", redirect.host or Sample("var(txn.host)"), shown)
    status = f"http-request return status {redirect.status} hdr Location"
    query = Sample("var(txn.query)")
    if redirect.path is not None:
        return [*lines, line(way.origin, status, Literal(log_format(*start, redirect.path, query)))]
    if redirect.prefix is None:
        return [*lines, line(way.origin, status, Literal(log_format(*start, Sample("path"), query)))]
    lead = redirect.prefix.rstrip("/")
    bare = line(way.origin, status, Literal(log_format(*start, lead or "/", query)))
    if way.cut is None:
        return [*lines, bare]
    longer = Literal(log_format(*start, f"{lead}/", Sample(f"var({TAIL})"), query))
    return [*lines, line(way.origin, status, longer, f"if {{ var({TAIL}) -m found }}"), bare]


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
