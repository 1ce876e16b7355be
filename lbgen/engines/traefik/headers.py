"""Edits of headers, CORS and compression as Traefik's middlewares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.traefik.matching import quote_regex

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import HeaderEdits
    from lbgen.plan.policy import Compression, Cors


def build_edits(edits: HeaderEdits) -> dict[str, Data]:
    """Values by name; an empty one removes the field. An added line replaces, as Traefik cannot add."""
    values: dict[str, Data] = {title(name): "" for name in edits.remove}
    values.update((title(name), value) for name, value in (*edits.set, *edits.add))
    return values


def title(name: str) -> str:
    """`x-request-id` as `X-Request-Id`, the form of Go."""
    return "-".join(part.capitalize() for part in name.split("-"))


def build_cors(cors: Cors) -> dict[str, Data]:
    data: dict[str, Data] = {}
    exact = [origin.text for origin in cors.origins if origin.any or origin.is_exact]
    patterns = [f"^{origin.pattern(quote_regex)}$" for origin in cors.origins if not (origin.any or origin.is_exact)]
    if exact:
        data["accessControlAllowOriginList"] = list(exact)
    if patterns:
        data["accessControlAllowOriginListRegex"] = list(patterns)
    data["accessControlAllowMethods"] = list(cors.methods)
    if cors.headers:
        data["accessControlAllowHeaders"] = list(cors.headers)
    if cors.expose_headers:
        data["accessControlExposeHeaders"] = list(cors.expose_headers)
    if cors.credentials:
        data["accessControlAllowCredentials"] = True
    if cors.max_age is not None:
        data["accessControlMaxAge"] = cors.max_age
    return {"headers": {**data, "addVaryHeader": True}}


def build_compression(compression: Compression) -> dict[str, Data]:
    return {
        "compress": {
            "encodings": ["gzip"],
            "includedContentTypes": list(compression.types),
            "minResponseBodyBytes": compression.min_size,
        }
    }
