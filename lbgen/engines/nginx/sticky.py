"""Sticky cookies: a map from the cookie to its endpoint, and one from the endpoint to the cookie that is set.

From 1.30 on an upstream selects the server by `sticky route`. Older versions send a request with a cookie to an
upstream of that endpoint, in which the others are its backups.
"""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.names import header_name, inline, reference, single_upstream
from lbgen.engines.nginx.statements import Entry, Header, Text
from lbgen.engines.nginx.strings import directive, text
from lbgen.engines.nginx.view import Contributor, HttpBlock, HttpForward, Lines, UpstreamPool
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Endpoint, Pool
from lbgen.plan.policy import Sticky

STUCK = "stuck"  # begins the names of variables with the endpoint that a cookie names
_LAST = "last_endpoint"  # the address of the endpoint that answered; none where the last one tried did not


def named_endpoint(on: HttpBlock, pool: Pool, sticky: Sticky) -> str:
    """The variable with the endpoint that the cookie names: its id, before 1.30 its upstream; empty for none of the
    pool."""
    name, is_new = on.definitions.named(STUCK, pool.name)
    if is_new:
        ids, selects = [e.cookie_value for e in pool.endpoints], on.version.upstreams
        entries = (
            Entry(Atom(f'"={id_}"'), Atom(id_ if selects else single_upstream(pool.name, at)))
            for at, id_ in enumerate(ids)
        )
        _define(on, pool, name, text(inline(on.values.cookie(sticky.cookie))), *entries)
    return name


def _forwarded(at: HttpForward) -> Iterator[Header]:
    """Set-Cookie for each sticky pool of the route."""
    targets = at.on.reachable_targets(at.action)
    chosen = at.on.splits.get(at.route.name) if len(targets) > 1 else None
    for name in dict.fromkeys(t.pool for t in targets):
        pool = at.on.plan.pool(name)
        if pool.sticky is not None:
            yield Header(header_name("set-cookie"), text(inline(_set_cookie(at.on, pool, pool.sticky, chosen))))


def _set_cookie(on: HttpBlock, pool: Pool, sticky: Sticky, chosen: str | None) -> str:
    """The variable with the value of Set-Cookie, empty when the request has the cookie of the endpoint that answered.
    `chosen` is the variable with the pool of a split."""
    name, is_new = on.definitions.named("set_cookie", pool.name, pool.name, chosen)
    if is_new:
        cookie, answered = inline(on.values.cookie(sticky.cookie)), inline(_answered(on, pool))
        source = text(cookie, "\n", answered)
        if chosen is not None:
            source = text(inline(chosen), "\n", cookie, "\n", answered)
        start = "^" if chosen is None else f"^{pool.name.replace('.', '[.]')}\\n"
        kept = Entry(Literal(rf"{start}=([0-9a-f]+)\n\1$", "regex"), text())
        given = on.definitions.text(f"{sticky.cookie}=", inline("endpoint"), _attributes(sticky))
        new = Entry(Literal(rf"{start}[^\n]*\n(?<endpoint>[0-9a-f]+)$", "regex"), given)
        _define(on, pool, name, source, kept, new)
    return name


def _answered(on: HttpBlock, pool: Pool) -> str:
    """The variable with the id of the endpoint that answered."""
    name, is_new = on.definitions.named("answered", pool.name)
    if is_new:
        every = {e.authority: e.cookie_value for e in pool.endpoints}
        if on.definitions.first(_LAST):
            # `-` is the time of a try without an answer.
            last = Entry(Literal(r"(?<last>[^ ,]+)\n.*[0-9]$", "regex"), text(inline("last")))
            tried = text(inline("upstream_addr"), "\n", inline("upstream_header_time"))
            _define(on, pool, _LAST, tried, last)
        entries = (Entry(Literal(authority, "key"), Atom(id_)) for authority, id_ in every.items())
        _define(on, pool, name, text(inline(_LAST)), *entries)
    return name


def _define(on: HttpBlock, pool: Pool, name: str, source: Text, *entries: Entry) -> None:
    on.definitions.map(Section.STICKY, name, source, *entries, origin=f"{pool.field}.sticky", volatile=True)


def _attributes(sticky: Sticky) -> str:
    age = "" if sticky.ttl is None else f"; Max-Age={sticky.ttl}"
    return f"; Path=/{age}{'; Secure' if sticky.secure else ''}; HttpOnly; SameSite=Lax"


def _upstream(at: UpstreamPool) -> Lines:
    if at.on is not None and at.pool.sticky is not None and at.by_cookie:
        yield directive("sticky", "route", reference(named_endpoint(at.on, at.pool, at.pool.sticky)))


def _endpoint(at: UpstreamPool, endpoint: Endpoint) -> str:
    return f" route={endpoint.cookie_value}{'' if endpoint.weight else ' drain'}" if at.by_cookie else ""


STICKY = Contributor(forwarded=_forwarded, upstream=_upstream, endpoint=_endpoint)
