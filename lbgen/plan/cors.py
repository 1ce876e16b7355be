"""CORS: which requests are preflights, and the response headers."""

from __future__ import annotations

from lbgen.plan.model import HeaderEdits
from lbgen.plan.policy import Cors
from lbgen.plan.request import ParsedRequest

# The proxy alone answers CORS on such a route: these headers of endpoints are dropped.
CORS_HEADERS = (
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-max-age",
)
SAFE_METHODS = ("GET", "HEAD", "POST")
SAFE_HEADERS = ("accept", "accept-language", "content-language", "content-type")


def is_preflight(request: ParsedRequest) -> bool:
    """Whether it is a preflight: OPTIONS with Origin and Access-Control-Request-Method."""
    asks = request.lines("access-control-request-method")
    return request.method == "OPTIONS" and bool(request.lines("origin")) and bool(asks)


def allows_any_origin(cors: Cors) -> bool:
    """Whether Access-Control-Allow-Origin is always `*`, so that responses do not depend on Origin."""
    return any(origin.any for origin in cors.origins) and not cors.credentials


def preflight_headers(cors: Cors, request: ParsedRequest) -> tuple[tuple[str, str], ...]:
    """The headers of a preflight's response without Vary; none when origin, method or a header is not allowed."""
    method = request.lines("access-control-request-method")[0]
    asked = {
        name.strip(" \t").lower() for v in request.lines("access-control-request-headers") for name in v.split(",")
    }
    origin = allowed_origin(cors, request)
    if origin is None or method not in {*cors.methods, *SAFE_METHODS} or asked - {"", *cors.headers, *SAFE_HEADERS}:
        return ()
    found = [("access-control-allow-origin", origin), ("access-control-allow-methods", ", ".join(cors.methods))]
    if cors.headers:
        found.append(("access-control-allow-headers", ", ".join(cors.headers)))
    if cors.credentials:
        found.append(("access-control-allow-credentials", "true"))
    if cors.max_age is not None:
        found.append(("access-control-max-age", str(cors.max_age)))
    return tuple(found)


def response_edits(cors: Cors, request: ParsedRequest) -> HeaderEdits:
    """The edits of every other response of the route, before the route's own."""
    origin = allowed_origin(cors, request)
    found: list[tuple[str, str]] = []
    if origin is not None:
        found.append(("access-control-allow-origin", origin))
        if cors.credentials:
            found.append(("access-control-allow-credentials", "true"))
        if cors.expose_headers:
            found.append(("access-control-expose-headers", ", ".join(cors.expose_headers)))
    return HeaderEdits(set=tuple(found), add=vary_header(cors), remove=CORS_HEADERS)


def vary_header(cors: Cors) -> tuple[tuple[str, str], ...]:
    """The Vary line of every response."""
    return () if allows_any_origin(cors) else (("vary", "Origin"),)


def allowed_origin(cors: Cors, request: ParsedRequest) -> str | None:
    """The value of Access-Control-Allow-Origin; None when the origin is not allowed."""
    asked = ", ".join(request.lines("origin"))
    if not asked or not any(origin.covers(asked) for origin in cors.origins):
        return None
    return "*" if allows_any_origin(cors) else asked
