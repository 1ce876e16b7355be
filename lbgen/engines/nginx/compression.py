"""gzip for responses of endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.number_regex import above
from lbgen.engines.nginx.strings import EMPTY, directive, text, variables
from lbgen.engines.nginx.view import Entry, Line, Map
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.view import Text
    from lbgen.plan.model import Forward, Route
    from lbgen.plan.policy import Compression

_HTML = "text/html"
_ACCEPTED = r"(?=(?:[^\n]*,)?[ \t]*(?i:gzip)[ \t]*(?:,|\n|;[ \t]*(?i:q)=(?:1|0\.[0-9]*[1-9])))[^\n]*\n"
_VARY_ON = (
    "http_accept_encoding",
    "status",
    "sent_http_content_type",
    "upstream_http_content_encoding",
    "sent_http_content_length",
)


class CompressionMaps:
    """Collects a map per compression policy with the value of Vary."""

    def __init__(self, names: Names) -> None:
        self.maps: list[Map] = []
        self._names = names
        self._known: dict[Compression, Text] = {}

    def vary(self, route: Route, policy: Compression) -> Text:
        """`Accept-Encoding` on responses that nginx compresses; its gzip_vary would mark others as well."""
        if policy not in self._known:
            name = self._names.variable("compressed", route.name)
            types = "|".join(
                escapes.group(escapes.literal(t), escapes.plain()) for t in dict.fromkeys((*policy.types, _HTML))
            )
            length = f"(?:{above(policy.min_size - 1)})?" if policy.min_size else "[0-9]*"
            regex = rf"^{_ACCEPTED}(?:200|403|404)\n(?i:{types})[ \t]*(?:;[^\n]*)?\n\n{length}\n$"
            entry = Entry(Literal(regex, "regex"), text("Accept-Encoding"))
            origin = Atom(f"{route.field}.compression")
            self.maps.append(Map(origin, variables(_VARY_ON), reference(name), EMPTY, (entry,)))
            self._known[policy] = text(inline(name))
        return self._known[policy]


def response_directives(route: Route, action: Forward) -> tuple[Line, ...]:
    """The directives for the buffering and the compression of responses."""
    buffered = (directive("proxy_buffering", "on"),) if action.buffering.response else ()
    return (*buffered, *(_gzip_directives(route.compression) if route.compression is not None else ()))


def _gzip_directives(policy: Compression) -> tuple[Line, ...]:
    """The gzip directives of a location."""
    types = tuple(Literal(media) for media in policy.types if media != _HTML)
    return (
        directive("gzip", "on"),
        *((directive("gzip_types", *types),) if types else ()),
        directive("gzip_min_length", str(policy.min_size)),
        directive("gzip_proxied", "any"),
        directive("gzip_http_version", "1.0"),
    )
