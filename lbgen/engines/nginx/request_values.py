"""Query parameters and cookies that rules look at -> maps that take the first value of that name out of a request.

nginx's own `$arg_x` and `$cookie_x` ignore the case of names, so the raw query and the raw Cookie header are read. The
value of such a map is `=` and what was sent, so that an empty value is not a missing one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.view import NONE, Entry, Map
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names

# The leftmost match is the first pair of that name; what comes before it is left alone.
_COOKIE = r"(?:^|;)[ \t]*{}=(?<found>[^;]*)"
_QUERY = r"(?:^|&){}(?=[=&]|$)=?(?<found>[^&]*)"


class Values:
    """Hands out the variable for a cookie or parameter and collects the maps."""

    def __init__(self, names: Names) -> None:
        self.maps: list[Map] = []
        self._names = names
        self._known: dict[tuple[str, str], str] = {}

    def cookie(self, name: str) -> str:
        """The variable that holds the first cookie of that name."""
        return self._variable("http_cookie", "from_cookie", _COOKIE, name)

    def parameter(self, name: str) -> str:
        """The variable that holds the first query parameter of that name, still encoded."""
        return self._variable("args", "from_query", _QUERY, name)

    def _variable(self, source: str, kind: str, pattern: str, name: str) -> str:
        key = (kind, name)
        if key not in self._known:
            found = self._known[key] = self._names.variable(kind, name)
            sent = pattern.format(escapes.group(escapes.literal(name), escapes.plain()))
            entry = Entry(Literal(sent, "regex"), text("=", inline("found")))
            self.maps.append(Map(NONE, text(inline(source)), Atom(f"${found}"), EMPTY, (entry,)))
        return self._known[key]
