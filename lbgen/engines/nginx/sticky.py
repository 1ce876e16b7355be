"""Sticky cookies: a map from the cookie to the endpoint it names, and one from the endpoint to the cookie to be set.

From 1.29 on an upstream itself prefers the server whose `route` it is told. Before, a request with a cookie goes to an
upstream of that one endpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.retries import single
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.view import Entry, Map
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.request_values import Values
    from lbgen.engines.nginx.retries import Retries
    from lbgen.engines.nginx.strings import Texts
    from lbgen.engines.nginx.view import Text
    from lbgen.plan.model import Pool
    from lbgen.plan.policy import Sticky


class Stickies:
    """Hands out variables about sticky cookies; the maps gather in `maps`."""

    def __init__(self, names: Names, texts: Texts, values: Values, retries: Retries, *, old: bool) -> None:
        self.maps: list[Map] = []
        self._names = names
        self._texts = texts
        self._values = values
        self._retries = retries
        self._old = old
        self._asked: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._cookies: dict[tuple[str, str], Text] = {}

    def asked(self, pool: Pool, sticky: Sticky) -> str:
        """The variable with what the cookie names: the endpoint's id, for 1.22 its upstream; empty when it names none
        of the pool."""
        if pool.name not in self._asked:
            name = self._asked[pool.name] = self._names.variable("stuck", pool.name)
            if self._old:
                self._retries.single[pool.name] = None
            entries = tuple(
                Entry(Atom(f'"={e.cookie_value}"'), Atom(single(pool.name, at) if self._old else e.cookie_value))
                for at, e in enumerate(pool.endpoints)
            )
            source = text(inline(self._values.cookie(sticky.cookie)))
            self._add(pool, name, source, EMPTY, entries)
        return self._asked[pool.name]

    def set_cookie(self, pool: Pool, sticky: Sticky, chosen: str | None) -> Text:
        """What Set-Cookie says: nothing when the request came with the cookie of the endpoint that answered. `chosen`:
        the variable with the pool of a split."""
        key = (pool.name, chosen or "")
        if key not in self._cookies:
            name = self._names.variable("set_cookie", pool.name)
            asked, answered = inline(self._values.cookie(sticky.cookie)), inline(self._id(pool))
            source = text(asked, "\n", answered)
            if chosen is not None:
                source = text(inline(chosen), "\n", asked, "\n", answered)
            start = "^" if chosen is None else f"^{pool.name.replace('.', '[.]')}\\n"
            kept = Entry(Literal(rf"{start}=([0-9a-f]+)\n\1$", "regex"), EMPTY)
            given = self._texts.of(f"{sticky.cookie}=", inline("endpoint"), _attributes(sticky))
            new = Entry(Literal(rf"{start}[^\n]*\n(?<endpoint>[0-9a-f]+)$", "regex"), given)
            self._add(pool, name, source, EMPTY, (kept, new))
            self._cookies[key] = text(inline(name))
        return self._cookies[key]

    def _id(self, pool: Pool) -> str:
        """The variable with the id of the endpoint that answered."""
        if pool.name not in self._ids:
            name = self._ids[pool.name] = self._names.variable("answered", pool.name)
            every = {e.authority: e.cookie_value for e in pool.endpoints}
            entries = tuple(Entry(Literal(authority, "key"), Atom(id_)) for authority, id_ in every.items())
            self._add(pool, name, text(inline(self._retries.last_endpoint())), EMPTY, entries)
        return self._ids[pool.name]

    def _add(self, pool: Pool, name: str, source: Text, default: Text, entries: tuple[Entry, ...]) -> None:
        origin = Atom(f"{pool.field}.sticky")
        self.maps.append(Map(origin, source, Atom(f"${name}"), default, entries, volatile=True))


def _attributes(sticky: Sticky) -> str:
    age = "" if sticky.ttl is None else f"; Max-Age={sticky.ttl}"
    return f"; Path=/{age}{'; Secure' if sticky.secure else ''}; HttpOnly; SameSite=Lax"
