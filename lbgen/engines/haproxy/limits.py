"""Access lists, limits of a request head, rates, concurrency and sizes of bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lbgen.engines.haproxy import compression, cors
from lbgen.engines.haproxy.quote import Sample, argument
from lbgen.engines.haproxy.statements import Acl, Statement, acl, found, is_true, return_text, set_var, statement
from lbgen.engines.text import Literal
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lbgen.engines.haproxy.maps import Maps
    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import Listener, Route
    from lbgen.plan.policy import Access, Key

_TABLE = "lbgen:under_way"  # the stick table that counts requests under way
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
            statements.append(return_text(431, when=[acl(f"pathq,length gt {limits.target}")], origin=field))
        if limits.headers is not None:
            most = limits.headers + 2  # the sample counts the line break at the end
            statements.append(return_text(431, when=[acl(f"req.hdrs,length gt {most}")], origin=field))
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
                statements.append(return_text(403, when=acls, origin=field))
        return statements

    def after_routing(self) -> list[Statement]:
        """Limits and policies of the request's route."""
        with_cors = [key for key, route in self._routes if route.cors]
        return [
            *cors.policy_statements(self._listener.name, with_cors, self._per_route),
            *self._access(),
            *cors.preflight_statements(with_cors),
            *self._rates(),
            *self._concurrency(),
            *self._body_sizes(),
            *compression.request_statements(self._routes, self._per_route),
        ]

    def _denied(self, access: Access, purpose: str, origin: str) -> Iterator[Sequence[Acl]]:
        return denied(access, f"{self._client} -m ip", purpose, origin, self._maps)

    def _access(self) -> Iterator[Statement]:
        for number, (access, keys) in enumerate(_keys_by_value((k, r.access) for k, r in self._routes), 1):
            purpose = f"access.{number}"
            for acls in self._denied(access, purpose, self._per_route.origins.get(keys[0], "")):
                yield self._per_route.restrict(return_text(403, when=acls), keys, purpose)

    def _rates(self) -> Iterator[Statement]:
        """The token buckets are kept in Lua, where one thread at a time runs, so that taking a token is atomic."""
        limits = {key: (route, route.rate_limit) for key, route in self._routes if route.rate_limit}
        if not limits:
            return
        rates = {key: f"{limit.amount}/{limit.seconds}/{limit.burst}" for key, (_, limit) in limits.items()}
        yield from self._count_by("txn.bucket", {key: (route, limit.key) for key, (route, limit) in limits.items()})
        yield from self._per_route.with_values(statement("http-request set-var-fmt(txn.rate)"), rates, "rates")
        yield statement("http-request lua.take_token", when=[found("txn.bucket")])
        yield return_text(429, when=[is_true("txn.spent")])

    def _concurrency(self) -> Iterator[Statement]:
        """Requests are tracked from here to their end. One over the limit is refused before it is tracked, and again
        afterwards in case two came at once."""
        limits = {key: (route, route.concurrency) for key, route in self._routes if route.concurrency}
        if not limits:
            return
        yield from self._count_by("txn.place", {key: (route, limit.key) for key, (route, limit) in limits.items()})
        yield from self._set_number("txn.places", {key: limit.max for key, (_, limit) in limits.items()}, "places")
        counted = found("txn.place")
        is_full = acl(f"var(txn.place),sha1,table_conn_cur({_TABLE}),sub(txn.places) ge 0")
        yield return_text(429, when=[counted, is_full])
        yield statement(f"http-request track-sc0 var(txn.place),sha1 table {_TABLE}", when=[counted])
        yield return_text(429, when=[counted, acl(f"sc0_conn_cur({_TABLE}),sub(txn.places) gt 0")])

    def _body_sizes(self) -> Iterator[Statement]:
        sizes = {key: route.max_body for key, route in self._routes if route.max_body is not None}
        if not sizes:
            return
        yield from self._set_number("txn.max_body", sizes, "bodies")
        has_length = acl("req.fhdr_cnt(content-length) gt 0")
        is_over = acl("req.fhdr(content-length),sub(txn.max_body) gt 0")
        yield return_text(413, when=[found("txn.max_body"), has_length, is_over])

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
                    value = f"{variable}_{number}"
                    yield from self._lines(key.name, value)
                    counted_by = ["/", Sample(f"var({value})")]
                    acls = [acl(f"var({value}) -m len 1:")]
            action = statement(f"http-request set-var-fmt({variable})", when=acls)
            yield from self._per_route.with_values(action, names, purpose, counted_by)

    def _lines(self, header: str, variable: str) -> Iterator[Statement]:
        """Store all lines of a header in `variable`; Lua joins them, as a second line is rare."""
        fetch = argument(header)
        yield set_var(variable, Literal(f"req.fhdr({fetch})"))
        has_more = acl(Literal(f"req.fhdr_cnt({fetch})"), "gt 1")
        yield statement("http-request lua.join", Literal(header.lower()), variable, when=[has_more])

    def _set_number(self, variable: str, values: Mapping[str, int], purpose: str) -> Iterator[Statement]:
        """Store the number of the request's route in `variable`."""
        if len(values) == 1:
            ((key, value),) = values.items()
            yield self._per_route.restrict(set_var(variable, f"int({value})"), [key], purpose)
            return
        mapped = self._maps.file(f"{purpose}.map", f"route -> {variable}")
        for key, value in values.items():
            mapped.add(key, str(value), self._per_route.origins.get(key, ""))
        yield set_var(variable, f"var(txn.route),map_str_int({mapped.name})")


def _keys_by_value(pairs: Iterable[tuple[str, _T | None]]) -> list[tuple[_T, list[str]]]:
    """Each distinct value with all its keys."""
    groups: dict[_T, list[str]] = {}
    for key, value in pairs:
        if value is not None:
            groups.setdefault(value, []).append(key)
    return list(groups.items())
