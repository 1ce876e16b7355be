"""Sticky cookies: a map from the cookie to its endpoint, and one from the endpoint to the cookie that is set.

From 1.30 on an upstream selects the server by `sticky route`. Older versions send a request with a cookie to an
upstream of that endpoint, in which the others are its backups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.names import Names, inline, reference
from lbgen.engines.nginx.strings import EMPTY, Texts, text
from lbgen.engines.nginx.upstreams import single_upstream
from lbgen.engines.nginx.view import Entry, Map, Text
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from lbgen.engines.nginx.request_values import RequestValues
    from lbgen.engines.nginx.support import Version
    from lbgen.plan.model import Pool
    from lbgen.plan.policy import Sticky


_LAST = "last_endpoint"  # the address of the last endpoint tried


class StickyCookies:
    """Variables of sticky cookies; collects their maps."""

    def __init__(self, names: Names, texts: Texts, values: RequestValues, version: Version) -> None:
        self.maps: list[Map] = []
        self.single_pools: dict[str, None] = {}  # those that need an upstream per endpoint
        self._names = names
        self._texts = texts
        self._values = values
        self._version = version
        self._requested: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._cookies: dict[tuple[str, str], Text] = {}
        self._has_last = False

    def named_endpoint(self, pool: Pool, sticky: Sticky) -> str:
        """The variable with the endpoint that the cookie names: its id, before 1.30 its upstream; empty for none of the
        pool."""
        if pool.name not in self._requested:
            name = self._requested[pool.name] = self._names.variable("stuck", pool.name)
            if not self._version.upstreams:
                self.single_pools[pool.name] = None
            entries = tuple(
                Entry(Atom(f'"={id_}"'), Atom(id_ if self._version.upstreams else single_upstream(pool.name, at)))
                for at, id_ in enumerate(e.cookie_value for e in pool.endpoints)
            )
            source = text(inline(self._values.cookie(sticky.cookie)))
            self._add(pool, name, source, EMPTY, entries)
        return self._requested[pool.name]

    def set_cookie(self, pool: Pool, sticky: Sticky, chosen: str | None) -> Text:
        """The value of Set-Cookie, empty when the request has the cookie of the endpoint that answered. `chosen` is the
        variable with the pool of a split."""
        key = (pool.name, chosen or "")
        if key not in self._cookies:
            name = self._names.variable("set_cookie", pool.name)
            cookie, answered = inline(self._values.cookie(sticky.cookie)), inline(self._answered(pool))
            source = text(cookie, "\n", answered)
            if chosen is not None:
                source = text(inline(chosen), "\n", cookie, "\n", answered)
            start = "^" if chosen is None else f"^{pool.name.replace('.', '[.]')}\\n"
            kept = Entry(Literal(rf"{start}=([0-9a-f]+)\n\1$", "regex"), EMPTY)
            given = self._texts.of(f"{sticky.cookie}=", inline("endpoint"), _attributes(sticky))
            new = Entry(Literal(rf"{start}[^\n]*\n(?<endpoint>[0-9a-f]+)$", "regex"), given)
            self._add(pool, name, source, EMPTY, (kept, new))
            self._cookies[key] = text(inline(name))
        return self._cookies[key]

    def _answered(self, pool: Pool) -> str:
        """The variable with the id of the endpoint that answered."""
        if pool.name not in self._ids:
            name = self._ids[pool.name] = self._names.variable("answered", pool.name)
            every = {e.authority: e.cookie_value for e in pool.endpoints}
            entries = tuple(Entry(Literal(authority, "key"), Atom(id_)) for authority, id_ in every.items())
            if not self._has_last:
                self._has_last = True
                last = Entry(Literal("(?<last>[^ ,]+)$", "regex"), text(inline("last")))
                self._add(pool, _LAST, text(inline("upstream_addr")), EMPTY, (last,))
            self._add(pool, name, text(inline(_LAST)), EMPTY, entries)
        return self._ids[pool.name]

    def _add(self, pool: Pool, name: str, source: Text, default: Text, entries: tuple[Entry, ...]) -> None:
        origin = Atom(f"{pool.field}.sticky")
        self.maps.append(Map(origin, source, reference(name), default, entries, volatile=True))


def _attributes(sticky: Sticky) -> str:
    age = "" if sticky.ttl is None else f"; Max-Age={sticky.ttl}"
    return f"; Path=/{age}{'; Secure' if sticky.secure else ''}; HttpOnly; SameSite=Lax"
