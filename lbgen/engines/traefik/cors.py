"""CORS: the settings of Traefik's own middleware for headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.traefik.matching import quote_regex
from lbgen.engines.traefik.view import Contributor, HttpRoute

if TYPE_CHECKING:
    from lbgen.engines.document import Data


def _middlewares(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    cors = at.route.cors
    if cors is None:
        return
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
    yield "cors", {"headers": {**data, "addVaryHeader": True}}


CORS = Contributor(middlewares=_middlewares, answers=True)
