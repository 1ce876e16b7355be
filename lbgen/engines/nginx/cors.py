"""CORS: a map over Origin, and maps whose values become headers of a response unless they are empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lbgen.engines import escapes
from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.request_values import header_variable
from lbgen.engines.nginx.statements import Check, Entry, Text
from lbgen.engines.nginx.strings import text, variables
from lbgen.engines.nginx.view import Checks, Contributor, HttpRoute
from lbgen.engines.text import Atom, Literal
from lbgen.plan.cors import CORS_HEADERS, allows_any_origin, vary_header
from lbgen.plan.model import Route
from lbgen.plan.policy import Cors, Origin

_PREFLIGHT = Check(Atom("$preflight"), 204)


def _response(at: HttpRoute) -> Iterable[tuple[str, Text]]:
    """Names and values for every response of the route, preflights included; routes with one policy share the maps."""
    cors, known = at.route.cors, at.on.cors_headers
    if cors is not None and cors not in known:
        known[cors] = tuple(_headers(at, cors, is_first=not known))
    return () if cors is None else known[cors]


def _headers(at: HttpRoute, cors: Cors, *, is_first: bool) -> Iterator[tuple[str, Text]]:
    definitions = at.on.definitions
    if is_first:
        keys = ("request_method", "http_origin", header_variable("access-control-request-method"))
        entry = Entry(Literal(r"^OPTIONS\n[^\n]+\n[^\n]", "regex"), Atom("1"))
        definitions.map(Section.CORS, "preflight", variables(keys), entry, default=Atom("0"))

    def mapped(what: str, source: Text, *entries: Entry) -> str:
        name = definitions.names.variable(f"cors_{what}", at.route.name)
        definitions.map(Section.CORS, name, source, *entries, origin=f"{at.route.field}.cors")
        return name

    def when(what: str, regex: str, value: str) -> Text:
        """`value` for an allowed origin; `regex` matches `1:` and the origin of a preflight, else `0:` and it."""
        source = text(inline("preflight"), ":", inline(origin))
        return text(inline(mapped(what, source, Entry(Literal(regex, "regex"), definitions.text(value)))))

    sent = text(inline("http_origin"))
    allow = text("*") if allows_any_origin(cors) else sent
    origin = mapped("origin", sent, *(Entry(_origin_key(o), allow) for o in cors.origins))
    yield "access-control-allow-origin", text(inline(origin))
    yield "access-control-allow-methods", when("methods", "^1:.", ", ".join(cors.methods))
    if cors.headers:
        yield "access-control-allow-headers", when("headers", "^1:.", ", ".join(cors.headers))
    if cors.max_age is not None:
        yield "access-control-max-age", when("age", "^1:.", str(cors.max_age))
    if cors.credentials:
        yield "access-control-allow-credentials", when("credentials", ":.", "true")
    if cors.expose_headers:
        yield "access-control-expose-headers", when("exposed", "^0:.", ", ".join(cors.expose_headers))
    yield from ((name, text(value)) for name, value in vary_header(cors))


def _guard(at: HttpRoute, _: bool) -> Checks:
    return () if at.route.cors is None else (_PREFLIGHT,)


def _hides(route: Route) -> Iterable[str]:
    return () if route.cors is None else CORS_HEADERS


def _origin_key(origin: Origin) -> Literal:
    if origin.any:
        return Literal(".", "regex")
    return Literal(origin.text, "key") if origin.is_exact else Literal(f"^{origin.pattern(_quote)}$", "regex")


def _quote(value: str) -> str:
    return escapes.group(escapes.literal(value), escapes.plain())


CORS = Contributor(guard=_guard, hides=_hides, response=_response)
