"""CORS: maps over Origin and preflight headers, whose values become response headers unless they are empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.request_values import header_variable
from lbgen.engines.nginx.strings import EMPTY, text, variables
from lbgen.engines.nginx.view import NONE, Check, Entry, Map
from lbgen.engines.text import Atom, Literal
from lbgen.plan.cors import CORS_HEADERS, SAFE_HEADERS, SAFE_METHODS, allows_any_origin, vary_header
from lbgen.plan.policy import SUBDOMAIN_CHARACTER

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.strings import Texts
    from lbgen.engines.nginx.view import Text
    from lbgen.plan.model import Route
    from lbgen.plan.policy import Cors, Origin

PREFLIGHT = Check(Atom("$preflight"), 204, EMPTY)
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
                self._preflight()
            self._known[cors] = self._headers(route, cors)
        return self._known[cors]

    def _headers(self, route: Route, cors: Cors) -> Pairs:
        sent = inline("http_origin")
        allow = text("*") if allows_any_origin(cors) else text(sent)
        origins = tuple(Entry(Literal(_origin_regex(o), "regex"), allow) for o in cors.origins)
        origin = self._map("cors_origin", route, text(sent), *origins)
        requested = [header_variable(f"access-control-request-{what}") for what in ("method", "headers")]
        key = variables(("preflight", origin, *requested))
        granted = self._map("cors_granted", route, key, Entry(Literal(_grant_regex(cors), "regex"), text("1")))
        # A rejected preflight gets none of the headers.
        allowed = self._map(
            "cors_allowed",
            route,
            text(inline("preflight"), inline(granted)),
            Entry(Literal("^(?:0|11)$", "regex"), text(inline(origin))),
        )

        def when(kind: str, name: str, regex: str, value: str) -> Text:
            entry = Entry(Literal(regex, "regex"), self._texts.of(value))
            return text(inline(self._map(kind, route, text(inline(name)), entry)))

        headers = [("access-control-allow-origin", text(inline(allowed)))]
        headers.append(("access-control-allow-methods", when("cors_methods", granted, "1", ", ".join(cors.methods))))
        if cors.headers:
            headers.append(
                ("access-control-allow-headers", when("cors_headers", granted, "1", ", ".join(cors.headers)))
            )
        if cors.max_age is not None:
            headers.append(("access-control-max-age", when("cors_age", granted, "1", str(cors.max_age))))
        if cors.credentials:
            headers.append(("access-control-allow-credentials", when("cors_credentials", allowed, ".", "true")))
        if cors.expose_headers:
            source = text(inline("preflight"), inline(allowed))
            entry = Entry(Literal("^0.", "regex"), self._texts.of(", ".join(cors.expose_headers)))
            exposed = self._map("cors_exposed", route, source, entry)
            headers.append(("access-control-expose-headers", text(inline(exposed))))
        return (*headers, *((name, text(value)) for name, value in vary_header(cors)))

    def _map(self, kind: str, route: Route, source: Text, *entries: Entry) -> str:
        name = self._names.variable(kind, route.name)
        self.maps.append(Map(Atom(f"{route.field}.cors"), source, reference(name), EMPTY, entries))
        return name

    def _preflight(self) -> None:
        keys = ("request_method", "http_origin", header_variable("access-control-request-method"))
        entry = Entry(Literal(r"^OPTIONS\n[^\n]+\n[^\n]", "regex"), Atom("1"))
        self.maps.append(Map(NONE, variables(keys), Atom("$preflight"), Atom("0"), (entry,)))


def _origin_regex(origin: Origin) -> str:
    if origin.any:
        return "."
    port = "" if origin.port is None else f":{origin.port}"
    host = escapes.group(escapes.literal(origin.host), escapes.plain())
    return f"^{origin.scheme}://{f'{SUBDOMAIN_CHARACTER}*[.]' if origin.wildcard else ''}{host}{port}$"


def _grant_regex(cors: Cors) -> str:
    """Matches the lines preflight, allowed origin, requested method and requested headers."""
    methods = "|".join(_word(m) for m in dict.fromkeys((*cors.methods, *SAFE_METHODS)))
    names = "|".join(_word(h) for h in dict.fromkeys((*cors.headers, *SAFE_HEADERS)))
    blank = r"[ \t]*"
    one = f"{blank}(?:(?i:{names}){blank})?"
    return rf"^1\n[^\n]+\n(?:{methods})\n{one}(?:,{one})*\n$"


def _word(word: str) -> str:
    return escapes.group(escapes.literal(word), escapes.plain())
