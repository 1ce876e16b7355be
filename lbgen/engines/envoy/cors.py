"""CORS: Envoy routes that answer preflights, and the headers of all other responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.headers import APPEND, SET, escape_format, header_option
from lbgen.engines.envoy.matching import escape_regex, regex
from lbgen.plan.policy import SUBDOMAIN_CHARACTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.document import Data
    from lbgen.plan.policy import Cors, Origin

    Headers = list[dict[str, Data]]

# What a page may always send (Fetch, "CORS-safelisted").
_METHODS = ("GET", "HEAD", "POST")
_HEADERS = ("accept", "accept-language", "content-language", "content-type")
_ALLOW = "access-control-allow-"
# Headers of an endpoint's response that are replaced or removed.
DROPPED_HEADERS = (
    *(f"{_ALLOW}{what}" for what in ("origin", "methods", "headers", "credentials", "private-network")),
    "access-control-expose-headers",
    "access-control-max-age",
)
# Headers that lbgen may add to a response that answers no preflight.
RESPONSE_HEADERS = (f"{_ALLOW}origin", f"{_ALLOW}credentials", "access-control-expose-headers", "vary")
_ORIGIN = "%REQ(ORIGIN)%"


def build_preflights(cors: Cors) -> Iterator[tuple[Headers, Headers]]:
    """(required request headers, response headers) for preflights that are granted, then for all preflights."""
    preflight: Headers = [
        {"name": ":method", "string_match": {"exact": "OPTIONS"}},
        {"name": "origin", "present_match": True},
        {"name": "access-control-request-method", "present_match": True},
    ]
    methods = "|".join(escape_regex(method) for method in dict.fromkeys((*_METHODS, *cors.methods)))
    name = f"(?:{'|'.join(escape_regex(header) for header in dict.fromkeys((*_HEADERS, *cors.headers)))})"
    names = rf"(?i)[ \t]*(?:{name}[ \t]*)?(?:,[ \t]*(?:{name}[ \t]*)?)*"
    granted: Headers = [
        *preflight,
        {"name": "access-control-request-method", "string_match": regex(methods)},
        {"name": "access-control-request-headers", "string_match": regex(names), "treat_missing_header_as_empty": True},
        _allowed(cors),
    ]
    shown = [header_option(f"{_ALLOW}methods", escape_format(", ".join(cors.methods)), SET)]
    if cors.headers:
        shown.append(header_option(f"{_ALLOW}headers", escape_format(", ".join(cors.headers)), SET))
    if cors.max_age is not None:
        shown.append(header_option("access-control-max-age", str(cors.max_age), SET))
    yield granted, [*_origin(cors), *shown, *_vary(cors)]
    yield preflight, _vary(cors)


def build_responses(cors: Cors) -> Iterator[tuple[Headers, Headers]]:
    """(required request headers, response headers) for requests of allowed origins, then for all requests."""
    exposed = [header_option("access-control-expose-headers", escape_format(", ".join(cors.expose_headers)), SET)]
    yield [_allowed(cors)], [*_origin(cors), *(exposed if cors.expose_headers else ()), *_vary(cors)]
    yield [], _vary(cors)


def _vary(cors: Cors) -> Headers:
    """A further Vary line, unless every origin gets the same response."""
    return [] if _is_constant(cors) else [header_option("vary", "Origin", APPEND)]


def _is_constant(cors: Cors) -> bool:
    return any(origin.any for origin in cors.origins) and not cors.credentials


def _origin(cors: Cors) -> Headers:
    found = [header_option(f"{_ALLOW}origin", "*" if _is_constant(cors) else _ORIGIN, SET)]
    return [*found, header_option(f"{_ALLOW}credentials", "true", SET)] if cors.credentials else found


def _allowed(cors: Cors) -> dict[str, Data]:
    if any(origin.any for origin in cors.origins):
        return {"name": "origin", "string_match": regex(r"\C+")}
    return {"name": "origin", "string_match": regex("|".join(_pattern(origin) for origin in cors.origins))}


def _pattern(origin: Origin) -> str:
    port = "" if origin.port is None else f":{origin.port}"
    below = rf"{SUBDOMAIN_CHARACTER}*\." if origin.wildcard else ""
    return f"{escape_regex(origin.scheme)}://{below}{escape_regex(origin.host)}{port}"
