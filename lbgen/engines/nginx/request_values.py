"""Query parameters and cookies in rules: maps with the first value of a name.

nginx's own `$arg_x` and `$cookie_x` ignore the case of names, so the maps read the raw query and the raw Cookie header.
Their value is `=` and the sent value, which tells an empty value from a missing one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.view import NONE, Entry, Map
from lbgen.engines.text import Literal

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names

# The leftmost match is the first pair of that name.
_COOKIE = r"(?:^|;)[ \t]*{}=(?<found>[^;]*)"
_QUERY = r"(?:^|&){}(?=[=&]|$)=?(?<found>[^&]*)"


class RequestValues:
    """Variables with cookies and query parameters; collects their maps."""

    def __init__(self, names: Names) -> None:
        self.maps: list[Map] = []
        self._names = names
        self._known: dict[tuple[str, str], str] = {}

    def cookie(self, name: str) -> str:
        """The variable with the first cookie of that name."""
        return self._variable("http_cookie", "from_cookie", _COOKIE, name)

    def parameter(self, name: str) -> str:
        """The variable with the first query parameter of that name, still percent-encoded."""
        return self._variable("args", "from_query", _QUERY, name)

    def _variable(self, source: str, kind: str, pattern: str, name: str) -> str:
        key = (kind, name)
        if key not in self._known:
            variable = self._known[key] = self._names.variable(kind, name)
            regex = pattern.format(escapes.group(escapes.literal(name), escapes.plain()))
            entry = Entry(Literal(regex, "regex"), text("=", inline("found")))
            self.maps.append(Map(NONE, text(inline(source)), reference(variable), EMPTY, (entry,)))
        return self._known[key]
