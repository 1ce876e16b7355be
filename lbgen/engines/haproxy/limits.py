"""Access lists, limits of a request head, rates, concurrency and sizes of bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from lbgen.engines.haproxy import cors
from lbgen.engines.haproxy.quote import Sample, argument
from lbgen.engines.haproxy.statements import Acl, Statement, acl, deny, found, set_var, statement
from lbgen.engines.text import Literal
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lbgen.engines.haproxy.maps import Maps
    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import Listener, Route
    from lbgen.plan.policy import Access, Key, RateLimit

_UNDER_WAY = "lbgen:under_way"  # the stick table that counts requests under way
_BUCKETS = "lbgen:rates"  # the one with the time at which each bucket is full again
# Clocks of HAProxy by the fraction of a second that they count.
_CLOCKS = ((1_000_000, "date(0,us)"), (1_000, "date(0,ms)"), (1, "date()"))
_WRAP = 1_000_000_000  # where a clock begins anew, as the table holds 32 bits
_T = TypeVar("_T")


def denied(access: Access, sample: str, purpose: str, origin: str, maps: Maps) -> Iterator[Sequence[Acl]]:
    """ACLs, each of which holds for clients that the list denies; an empty sequence denies all. `sample` is the
    client's address."""
    if access.allow == ():
        yield ()
        return
    if access.deny:
        yield (maps.is_within(sample, access.deny, f"{purpose}.deny", origin),)
    if access.allow:
        yield (~maps.is_within(sample, access.allow, f"{purpose}.allow", origin),)


class _Bucket(Struct, frozen=True):
    """A rate as times of a clock: that of one token, and that of all."""

    clock: str
    token: int
    size: int

    @classmethod
    def of(cls, limit: RateLimit) -> _Bucket:
        """By the finest clock that does not begin anew within twice the time of a bucket."""
        for parts, clock in _CLOCKS:
            token = max(round(limit.seconds * parts / limit.amount), 1)
            if token * limit.burst * 2 < _WRAP:
                return cls(clock, token, token * limit.burst)
        raise ValueError(f"a bucket of {limit.burst} takes too long to fill")


class Limits:
    """The limits of one listener. `routes` are (key, route) of every route that a request can take."""

    def __init__(
        self, listener: Listener, routes: Sequence[tuple[str, Route]], per_route: PerRoute, maps: Maps
    ) -> None:
        self._listener = listener
        self._routes = routes
        self._per_route = per_route
        self._maps = maps
        counted = [limit.key for _, route in routes for limit in (route.rate_limit, route.concurrency) if limit]
        by_address = (
            listener.access
            or any(route.access for _, route in routes)
            or any(key.kind is KeyKind.CLIENT_IP for key in counted)
        )
        self._reads_forwarded = bool(by_address and listener.trusted_proxies)
        self._client = "var(txn.client)" if self._reads_forwarded else "src"

    def before_routing(self) -> list[Statement]:
        """Limits of the head, and the listener's own access list."""
        listener = self._listener
        limits, field = listener.limits, f"{listener.field}.limits"
        statements = []
        if limits.target is not None:
            too_long = [acl(f"pathq,length gt {limits.target}")]
            statements.append(statement("http-request return status 414", when=too_long, origin=field))
        if limits.headers is not None:
            too_long = [acl(f"req.hdrs,length gt {limits.headers + 2}")]  # it counts the line break at the end
            statements.append(statement("http-request return status 431", when=too_long, origin=field))
        if self._reads_forwarded:
            networks = ",".join(listener.trusted_proxies)
            peer = self._maps.is_within("src -m ip", listener.trusted_proxies, "trusted", listener.field)
            forwarded = acl("req.fhdr_cnt(x-forwarded-for) gt 0")
            statements += [
                set_var("txn.client", "src", origin=listener.field),
                statement(f"http-request lua.client {networks}", when=[peer, forwarded], origin=listener.field),
            ]
        if listener.access is not None:
            field = f"{listener.field}.access"
            for acls in self._denied(listener.access, "listener", field):
                statements.append(deny(403, acls, field))
        return statements

    def after_routing(self) -> list[Statement]:
        """Limits and policies of the request's route."""
        return [
            *self._access(),
            *cors.request_statements(cors.policies(self._routes), self._per_route),
            *self._rates(),
            *self._concurrency(),
            *self._body_sizes(),
        ]

    def _denied(self, access: Access, purpose: str, origin: str) -> Iterator[Sequence[Acl]]:
        return denied(access, f"{self._client} -m ip", purpose, origin, self._maps)

    def _access(self) -> Iterator[Statement]:
        for number, (access, keys) in enumerate(_keys_by_value((k, r.access) for k, r in self._routes), 1):
            purpose = f"access.{number}"
            for acls in self._denied(access, purpose, self._per_route.origins.get(keys[0], "")):
                yield self._per_route.restrict(deny(403, acls), keys, purpose)

    def _rates(self) -> Iterator[Statement]:
        """A bucket is the time at which it is full again: each request adds the time that one token takes."""
        limits = {key: (route, route.rate_limit) for key, route in self._routes if route.rate_limit}
        if not limits:
            return
        yield from self._count_by("txn.bucket", {key: (route, limit.key) for key, (route, limit) in limits.items()})
        is_counted = found("txn.bucket")
        yield statement(f"http-request track-sc1 var(txn.bucket),sha1 table {_BUCKETS}", when=[is_counted])
        groups = _keys_by_value(
            (key, (_Bucket.of(limit), limit.key.kind is KeyKind.HEADER)) for key, (_, limit) in limits.items()
        )
        for number, ((bucket, may_lack), keys) in enumerate(groups, 1):
            counted = [is_counted] if may_lack else []
            sets = (
                set_var("txn.now", f"{bucket.clock},mod({_WRAP})", counted),
                set_var("txn.until", f"sc1_get_gpt0({_BUCKETS}),sub(txn.now)", counted),
                set_var("txn.until", "int(0)", [*counted, ~acl(f"var(txn.until) -m int 0:{bucket.size}")]),
                deny(429, [*counted, acl(f"var(txn.until) -m int gt {bucket.size - bucket.token}")]),
                statement(f"http-request sc-set-gpt0(1) var(txn.until),add({bucket.token}),add(txn.now)", when=counted),
            )
            yield from (self._per_route.restrict(each, keys, f"rates.{number}") for each in sets)

    def _concurrency(self) -> Iterator[Statement]:
        """Requests are tracked from here to their end."""
        limits = {key: (route, route.concurrency) for key, route in self._routes if route.concurrency}
        if not limits:
            return
        yield from self._count_by("txn.place", {key: (route, limit.key) for key, (route, limit) in limits.items()})
        yield statement(f"http-request track-sc0 var(txn.place),sha1 table {_UNDER_WAY}", when=[found("txn.place")])
        for number, (most, keys) in enumerate(_keys_by_value((k, limit.max) for k, (_, limit) in limits.items()), 1):
            is_over = [found("txn.place"), acl(f"sc0_conn_cur({_UNDER_WAY}) gt {most}")]
            yield self._per_route.restrict(deny(429, is_over), keys, f"places.{number}")

    def _body_sizes(self) -> Iterator[Statement]:
        for number, (most, keys) in enumerate(_keys_by_value((key, route.max_body) for key, route in self._routes), 1):
            set_most = set_var("txn.max_body", f"int({most})")  # which the filter reads too
            yield self._per_route.restrict(set_most, keys, f"bodies.{number}")
            yield self._per_route.restrict(
                deny(413, [acl(f"req.fhdr(content-length) -m int gt {most}")]), keys, f"bodies.{number}"
            )

    def _count_by(self, variable: str, keys: Mapping[str, tuple[Route, Key]]) -> Iterator[Statement]:
        """Store in `variable` what a route counts requests by; it stays unset for a request whose header is missing or
        empty."""
        for number, (key, users) in enumerate(_keys_by_value((k, key) for k, (_, key) in keys.items()), 1):
            names = {user: keys[user][0].name for user in users}
            purpose = f"{variable.partition('.')[2]}.{number}"
            acls, counted_by = [], list[str | Sample]()
            match key.kind:
                case KeyKind.CLIENT_IP:
                    counted_by = ["/", Sample(self._client)]
                case KeyKind.HEADER:
                    value = f"req.fhdr({argument(key.name)})"
                    counted_by = ["/", Sample(value)]
                    acls = [acl(Literal(value), "-m len 1:")]
            action = statement(f"http-request set-var-fmt({variable})", when=acls)
            yield from self._per_route.with_values(action, names, purpose, counted_by)


def _keys_by_value(pairs: Iterable[tuple[str, _T | None]]) -> list[tuple[_T, list[str]]]:
    """Each distinct value with all its keys."""
    groups: dict[_T, list[str]] = {}
    for key, value in pairs:
        if value is not None:
            groups.setdefault(value, []).append(key)
    return list(groups.items())
