"""CORS: a map over Origin, and maps whose values become headers of a response unless they are empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import Names, inline, reference
from lbgen.engines.nginx.request_values import header_variable
from lbgen.engines.nginx.strings import EMPTY, Texts, text, variables
from lbgen.engines.nginx.view import NONE, Check, Entry, Map, Text
from lbgen.engines.text import Atom, Literal
from lbgen.plan.cors import CORS_HEADERS, allows_any_origin, vary_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Route
    from lbgen.plan.policy import Cors, Origin

PREFLIGHT = Check(Atom("$preflight"), 204)
HIDDEN = CORS_HEADERS

Pairs = tuple[tuple[str, "Text"], ...]


class CorsMaps:
    """Headers of routes with CORS; routes with the same policy share their maps."""

    def __init__(self, names: Names, texts: Texts) -> None:
        self.maps: list[Map] = []
        self._names = names
        self._texts = texts
        self._known: dict[Cors, Pairs] = {}

    def headers(self, route: Route, cors: Cors) -> Pairs:
        """Names and values for every response of the route, preflights included."""
        if cors not in self._known:
            if not self._known:
                keys = ("request_method", "http_origin", header_variable("access-control-request-method"))
                entry = Entry(Literal(r"^OPTIONS\n[^\n]+\n[^\n]", "regex"), Atom("1"))
                self.maps.append(Map(NONE, variables(keys), PREFLIGHT.variable, Atom("0"), (entry,)))
            self._known[cors] = (*self._headers(route, cors), *((x, text(value)) for x, value in vary_header(cors)))
        return self._known[cors]

    def _headers(self, route: Route, cors: Cors) -> Iterator[tuple[str, Text]]:
        sent = text(inline("http_origin"))
        allow = text("*") if allows_any_origin(cors) else sent
        origin = self._map("cors_origin", route, sent, *(Entry(_origin_key(o), allow) for o in cors.origins))
        yield "access-control-allow-origin", text(inline(origin))

        def when(what: str, regex: str, value: str) -> Text:
            """`value` for an allowed origin; `regex` matches `1:` and the origin of a preflight, else `0:` and it."""
            source = text(inline("preflight"), ":", inline(origin))
            entry = Entry(Literal(regex, "regex"), self._texts.of(value))
            return text(inline(self._map(f"cors_{what}", route, source, entry)))

        yield "access-control-allow-methods", when("methods", "^1:.", ", ".join(cors.methods))
        if cors.headers:
            yield "access-control-allow-headers", when("headers", "^1:.", ", ".join(cors.headers))
        if cors.max_age is not None:
            yield "access-control-max-age", when("age", "^1:.", str(cors.max_age))
        if cors.credentials:
            yield "access-control-allow-credentials", when("credentials", ":.", "true")
        if cors.expose_headers:
            yield "access-control-expose-headers", when("exposed", "^0:.", ", ".join(cors.expose_headers))

    def _map(self, kind: str, route: Route, source: Text, *entries: Entry) -> str:
        name = self._names.variable(kind, route.name)
        self.maps.append(Map(Atom(f"{route.field}.cors"), source, reference(name), EMPTY, entries))
        return name


def _origin_key(origin: Origin) -> Literal:
    if origin.any:
        return Literal(".", "regex")
    return Literal(origin.text, "key") if origin.is_exact else Literal(f"^{origin.pattern(_quote)}$", "regex")


def _quote(value: str) -> str:
    return escapes.group(escapes.literal(value), escapes.plain())
