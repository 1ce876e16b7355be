"""CORS: Envoy's own filter, and the headers of endpoints that it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.headers import APPEND, header_option
from lbgen.engines.envoy.matching import escape_regex, regex
from lbgen.engines.envoy.protobuf import extension, typed

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.policy import Cors, Origin

CORS = "cors"
# What a page may always send (Fetch, "CORS-safelisted").
_METHODS = ("GET", "HEAD", "POST")
_ALLOW = "access-control-allow-"
# Headers of an endpoint's response that an origin gets from the filter alone.
DROPPED_HEADERS = (
    *(f"{_ALLOW}{what}" for what in ("origin", "methods", "headers", "credentials", "private-network")),
    "access-control-expose-headers",
    "access-control-max-age",
)


def build_cors_filter() -> dict[str, Data]:
    """The filter; it does nothing on routes without a policy."""
    return extension(CORS, "filters.http.cors.v3.Cors")


def build_cors_config(cors: Cors) -> dict[str, Data]:
    """The policy of a route: it answers each preflight, and adds headers to responses for allowed origins."""
    found: dict[str, Data] = {
        "allow_origin_string_match": [_match(origin) for origin in cors.origins],
        "allow_methods": ", ".join(cors.methods or _METHODS),
        "forward_not_matching_preflights": False,
    }
    if cors.headers:
        found["allow_headers"] = ", ".join(cors.headers)
    if cors.expose_headers:
        found["expose_headers"] = ", ".join(cors.expose_headers)
    if cors.max_age is not None:
        found["max_age"] = str(cors.max_age)
    if cors.credentials:
        found["allow_credentials"] = True
    return typed("envoy.extensions.filters.http.cors.v3.CorsPolicy", found)


def build_cors_headers() -> list[dict[str, Data]]:
    """The headers that a route adds to responses: Envoy's filter leaves out Vary."""
    return [header_option("vary", "Origin", APPEND)]


def _match(origin: Origin) -> dict[str, Data]:
    if origin.any or origin.is_exact:
        return {"exact": origin.text}
    return regex(origin.pattern(escape_regex))
