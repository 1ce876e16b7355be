"""gzip for answers of endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.number_regex import above
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.view import Entry, Line, Map
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.view import Text
    from lbgen.plan.model import Route
    from lbgen.plan.policy import Compression

_HTML = "text/html"
_ACCEPTED = r"(?=(?:[^\n]*,)?[ \t]*(?i:gzip)[ \t]*(?:,|\n|;[ \t]*(?i:q)=(?:1|0\.[0-9]*[1-9])))[^\n]*\n"


class Compressions:
    """Makes the directives of routes that compress; a map for each policy tells which answers get a Vary."""

    def __init__(self, names: Names) -> None:
        self.maps: list[Map] = []
        self._names = names
        self._known: dict[Compression, Text] = {}

    def vary(self, route: Route, wanted: Compression) -> Text:
        """`Accept-Encoding` where nginx compresses: its own gzip_vary would say so of other answers as well."""
        if wanted not in self._known:
            name = self._names.variable("compressed", route.name)
            keys = (
                "http_accept_encoding",
                "status",
                "sent_http_content_type",
                "upstream_http_content_encoding",
                "sent_http_content_length",
            )
            source = text(*(part for key in keys for part in (inline(key), "\n")))
            types = "|".join(
                escapes.group(escapes.literal(t), escapes.plain()) for t in dict.fromkeys((*wanted.types, _HTML))
            )
            length = f"(?:{above(wanted.min_size - 1)})?" if wanted.min_size else "[0-9]*"
            regex = rf"^{_ACCEPTED}(?:200|403|404)\n(?i:{types})[ \t]*(?:;[^\n]*)?\n\n{length}\n$"
            entry = Entry(Literal(regex, "regex"), text("Accept-Encoding"))
            origin = Atom(f"{route.field}.compression")
            self.maps.append(Map(origin, source, Atom(f"${name}"), EMPTY, (entry,)))
            self._known[wanted] = text(inline(name))
        return self._known[wanted]


def lines(wanted: Compression) -> tuple[Line, ...]:
    """The gzip directives of a location."""
    types = tuple(Literal(media) for media in wanted.types if media != _HTML)
    return (
        Line(Atom("gzip"), (Atom("on"),)),
        *((Line(Atom("gzip_types"), types),) if types else ()),
        Line(Atom("gzip_min_length"), (Atom(str(wanted.min_size)),)),
        Line(Atom("gzip_proxied"), (Atom("any"),)),
        Line(Atom("gzip_http_version"), (Atom("1.0"),)),
    )
