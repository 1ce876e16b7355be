"""What rules and keys read of a request: query parameters, cookies, headers.

nginx's own `$arg_x` and `$cookie_x` ignore the case of names, so maps read the raw query and the raw Cookie header.
Their value is `=` and the sent value, which tells an empty value from a missing one. Fields that only trusted proxies
may set are empty for all other peers, as endpoints get them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from lbgen.engines import escapes
from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.definitions import Definitions, Section
from lbgen.engines.nginx.names import inline, network, reference
from lbgen.engines.nginx.statements import NONE, Entry, Geo, Network
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.text import Literal
from lbgen.plan.model import Listener
from lbgen.plan.policy import Key, KeyKind

SET_BY_PROXIES = frozenset(
    {"x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-request-id"}
)
"""Fields that count from trusted proxies only."""

_READABLE = re.compile(r"[a-z0-9_-]+")
# The leftmost match is the first pair of that name.
_COOKIE = r"(?:^|;)[ \t]*{}=(?<found>[^;]*)"
_QUERY = r"(?:^|&){}(?=[=&]|$)=?(?<found>[^&]*)"


class RequestValues:
    """Variables with cookies, query parameters and headers, and whether the client is in a network. `trusted` are the
    variables that are 1 for trusted peers, by listener; a listener without trusted proxies has none."""

    def __init__(self, definitions: Definitions, trusted: Mapping[str, str] | None = None) -> None:
        self._definitions = definitions
        self._trusted = trusted or {}

    def trusted(self, listener: Listener | None) -> str:
        """The variable that is 1 for trusted peers of the listener; empty: none are."""
        return "" if listener is None else self._trusted.get(listener.name, "")

    def header(self, name: str, listener: Listener | None = None) -> str:
        """The variable with a request header on the listener."""
        plain = header_variable(name)
        if name not in SET_BY_PROXIES or listener is None:
            return plain
        trusted = self.trusted(listener)
        variable, is_new = self._definitions.named("from_proxy", name, name, trusted)
        if is_new:
            entries = (Entry(Literal("1", "key"), text(inline(plain))),) if trusted else ()
            self._definitions.map(Section.VALUES, variable, text(inline(trusted)) if trusted else EMPTY, *entries)
        return variable

    def shared_header(self, name: str, listeners: Iterable[Listener]) -> str:
        """The same where several listeners have one variable: for zones and upstreams."""
        by_port = {str(x.port): self.header(name, x) for x in listeners}
        variables = dict.fromkeys(by_port.values())
        if len(variables) < 2:
            return next(iter(variables), header_variable(name))
        variable, is_new = self._definitions.named("from_proxies", name, name, *by_port, *variables)
        if is_new:
            entries = (Entry(Literal(port, "key"), text(inline(own))) for port, own in by_port.items())
            self._definitions.map(Section.VALUES, variable, text(inline("server_port")), *entries)
        return variable

    def cookie(self, name: str) -> str:
        """The variable with the first cookie of that name."""
        return self._variable("http_cookie", "from_cookie", _COOKIE, name)

    def parameter(self, name: str) -> str:
        """The variable with the first query parameter of that name, still percent-encoded."""
        return self._variable("args", "from_query", _QUERY, name)

    def client_in(self, networks: tuple[str, ...], listener: Listener | None = None) -> str:
        """The variable that is 1 for clients, also behind the listener's trusted proxies, in these networks; else 0."""
        proxies = () if listener is None else searched_proxies(listener)
        name, is_new = self._definitions.named("from", networks[0], networks, proxies)
        if is_new:
            entries = tuple(Network(network(each), 1) for each in networks)
            geo = Geo(NONE, reference(name), entries, proxies=tuple(map(network, proxies)))
            self._definitions.add(Section.VALUES, geo)
        return name

    def _variable(self, source: str, kind: str, pattern: str, name: str) -> str:
        variable, is_new = self._definitions.named(kind, name)
        if is_new:
            regex = pattern.format(escapes.group(escapes.literal(name), escapes.plain()))
            entry = Entry(Literal(regex, "regex"), text("=", inline("found")))
            self._definitions.map(Section.VALUES, variable, text(inline(source)), entry)
        return variable


def searched_proxies(listener: Listener) -> tuple[str, ...]:
    """The proxies behind which a geo block looks for the client in X-Forwarded-For, all that it can read."""
    return listener.trusted_proxies if listener.client_header is None else ()


def is_readable(header: str) -> bool:
    """Whether nginx has a variable for the header."""
    return _READABLE.fullmatch(header) is not None


def key_objections(key: Key, field: str) -> Iterator[Objection]:
    """An objection to a key of limits or hashes that is an unreadable header."""
    if key.kind is KeyKind.HEADER and not is_readable(key.name):
        yield Objection(refused(f"nginx cannot read the header {key.name}"), field)


def header_variable(header: str) -> str:
    """nginx's own variable for a request header."""
    return "http_" + header.replace("-", "_")
