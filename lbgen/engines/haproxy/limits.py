"""Access lists, limits of a request head, rates, concurrency and sizes of bodies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from lbgen.engines.haproxy.error_pages import deny_with_page, refuse
from lbgen.engines.haproxy.maps import Maps
from lbgen.engines.haproxy.quote import Sample, argument
from lbgen.engines.haproxy.statements import Acl, Block, Statement, acl, block, deny, is_set, set_var, statement
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.engines.text import Literal
from lbgen.plan.error_pages import page_for
from lbgen.plan.forwarding import FORWARDED_FOR
from lbgen.plan.model import Listener, Plan, Route
from lbgen.plan.policy import Access, Key, KeyKind, RateLimit
from lbgen.plan.precedence import group

_UNDER_WAY = "lbgen:under_way"  # the stick table that counts requests under way
_BUCKETS = "lbgen:rates"  # the one with the time at which each bucket is full again
# Clocks of HAProxy by the fraction of a second that they count.
_CLOCKS = ((1_000_000, "date(0,us)"), (1_000, "date(0,ms)"), (1, "date()"))
_WRAP = 1_000_000_000  # where a clock begins anew, as the table holds 32 bits
CLIENT_VARIABLE = "var(txn.client)"  # the client's address behind trusted proxies


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


def _head(on: HttpListener) -> Iterator[Statement]:
    limits, field = on.listener.limits, f"{on.listener.field}.limits"
    if limits.target is not None:
        too_long = acl(f"pathq,length gt {limits.target}")
        yield refuse(414, page_for(on.listener.error_pages, 414) or False, [too_long], field)
    if limits.headers is not None:
        too_long = acl(f"req.hdrs,length gt {limits.headers + 2}")  # it counts the line break at the end
        yield refuse(431, page_for(on.listener.error_pages, 431) or False, [too_long], field)


def _client(on: HttpListener) -> Iterator[Statement]:
    """Store the client's address where some feature asks for it behind trusted proxies."""
    if on.client == CLIENT_VARIABLE:
        field, proxies = on.listener.field, on.listener.trusted_proxies
        peer = on.maps.is_within("src -m ip", proxies, "trusted", field)
        header = on.listener.client_header or FORWARDED_FOR
        stated = acl(Literal(f"req.fhdr_cnt({argument(header)})"), "gt 0")
        find = statement(
            "http-request lua.client", Literal(header), ",".join(proxies), when=[peer, stated], origin=field
        )
        yield set_var("txn.client", "src", origin=field)
        yield find


def _listener_access(on: HttpListener) -> Iterator[Statement]:
    if on.listener.access is not None:
        field = f"{on.listener.field}.access"
        for acls in denied(on.listener.access, f"{on.client} -m ip", "listener", field, on.maps):
            yield deny(403, acls, field)


def _route_access(on: HttpListener) -> Iterator[Statement]:
    lists = group((route.access, key) for key, route in on.routes if route.access is not None)
    for number, (access, keys) in enumerate(lists.items(), 1):
        purpose = f"access.{number}"
        for acls in denied(access, f"{on.client} -m ip", purpose, on.keys[keys[0]].origin, on.maps):
            yield from deny_with_page(on, 403, acls, keys, purpose)


def _tables(plan: Plan) -> Iterator[Block]:
    table = "stick-table type binary len 20 size 1m expire"
    if any(route.concurrency for route in plan.routes):
        counts = [statement(f"{table} 1m store conn_cur")]
        yield block(statement(f"backend {_UNDER_WAY}"), "http", counts, "Requests under way, by route and key")
    if any(route.rate_limit for route in plan.routes):
        title = "Rates, by route and key: the time at which a bucket is full again"
        yield block(statement(f"backend {_BUCKETS}"), "http", [statement(f"{table} 1h store gpt0")], title)


def _rates(on: HttpListener) -> Iterator[Statement]:
    """A bucket is the time at which it is full again: each request adds the time that one token takes."""
    limits = {key: limit for key, route in on.routes if (limit := route.rate_limit)}
    if not limits:
        return
    yield from _count_by("txn.bucket", {key: limit.key for key, limit in limits.items()}, on)
    is_counted = is_set("txn.bucket")
    yield statement(f"http-request track-sc1 var(txn.bucket),sha1 table {_BUCKETS}", when=[is_counted])
    alike = group(((_Bucket.of(limit), limit.key.kind is KeyKind.HEADER), key) for key, limit in limits.items())
    for number, ((bucket, may_lack), keys) in enumerate(alike.items(), 1):
        counted = [is_counted] if may_lack else []
        purpose = f"rates.{number}"
        sets = (
            set_var("txn.now", f"{bucket.clock},mod({_WRAP})", counted),
            set_var("txn.until", f"sc1_get_gpt0({_BUCKETS}),sub(txn.now)", counted),
            set_var("txn.until", "int(0)", [*counted, ~acl(f"var(txn.until) -m int 0:{bucket.size}")]),
        )
        yield from (on.per_route.restrict(each, keys, purpose) for each in sets)
        is_over = acl(f"var(txn.until) -m int gt {bucket.size - bucket.token}")
        yield from deny_with_page(on, 429, [*counted, is_over], keys, purpose)
        take = f"http-request sc-set-gpt0(1) var(txn.until),add({bucket.token}),add(txn.now)"
        yield on.per_route.restrict(statement(take, when=counted), keys, purpose)


def _concurrency(on: HttpListener) -> Iterator[Statement]:
    """Requests are tracked from here to their end."""
    limits = {key: limit for key, route in on.routes if (limit := route.concurrency)}
    if not limits:
        return
    yield from _count_by("txn.place", {key: limit.key for key, limit in limits.items()}, on)
    has_place = is_set("txn.place")
    yield statement(f"http-request track-sc0 var(txn.place),sha1 table {_UNDER_WAY}", when=[has_place])
    for number, (most, keys) in enumerate(group((limit.max, key) for key, limit in limits.items()).items(), 1):
        is_over = [has_place, acl(f"sc0_conn_cur({_UNDER_WAY}) gt {most}")]
        yield from deny_with_page(on, 429, is_over, keys, f"places.{number}")


def _count_by(variable: str, keys: Mapping[str, Key], on: HttpListener) -> Iterator[Statement]:
    """Store in `variable` what a route counts requests by; it stays unset for a request whose header is missing or
    empty."""
    for number, (key, users) in enumerate(group((key, user) for user, key in keys.items()).items(), 1):
        acls, counted_by = [], list[str | Sample]()
        if key.kind is KeyKind.CLIENT_IP:
            counted_by = ["/", Sample(on.client)]
        elif key.kind is KeyKind.HEADER:
            value = f"req.fhdr({argument(key.name)})"
            acls, counted_by = [acl(Literal(value), "-m len 1:")], ["/", Sample(value)]
        names = {user: on.keys[user].route for user in users}
        action = statement(f"http-request set-var-fmt({variable})", when=acls)
        purpose = f"{variable.partition('.')[2]}.{number}"
        yield from on.per_route.with_values(action, names, purpose, counted_by)


def _filters(on: HttpListener) -> Iterator[Statement]:
    if any(route.max_body is not None for _, route in on.routes):
        yield statement("filter lua.measured", comment="ends bodies without a length that grow too large")


def _body_sizes(on: HttpListener) -> Iterator[Statement]:
    sizes = group((route.max_body, key) for key, route in on.routes if route.max_body is not None)
    for number, (most, keys) in enumerate(sizes.items(), 1):
        set_most = set_var("txn.max_body", f"int({most})")  # which the filter reads too
        is_over = acl(f"req.fhdr(content-length) -m int gt {most}")
        yield on.per_route.restrict(set_most, keys, f"bodies.{number}")
        yield from deny_with_page(on, 413, [is_over], keys, f"bodies.{number}")


def _too_large(on: HttpListener) -> Iterator[Statement]:
    if any(route.max_body is not None for _, route in on.routes):
        yield statement("http-after-response set-status 413", when=[is_set("txn.too_large")])


def _counts_clients(_: Listener, routes: Sequence[Route]) -> bool:
    counted = [limit.key for route in routes for limit in (route.rate_limit, route.concurrency) if limit]
    return any(key.kind is KeyKind.CLIENT_IP for key in counted)


LIMITS = Contributor(guards=_head)
CLIENT = Contributor(guards=_client)
ACCESS = Contributor(
    by_client=lambda listener, routes: bool(listener.access or any(route.access for route in routes)),
    guards=_listener_access,
    admission=_route_access,
)
RATE_LIMITS = Contributor(sections=_tables, by_client=_counts_clients, admission=_rates)
CONCURRENCY = Contributor(admission=_concurrency)
MAX_BODY = Contributor(filters=_filters, admission=_body_sizes, edits=_too_large)
