"""Error pages: the plugin's middleware before all others of a router."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.values import write_shared
from lbgen.plan.cors import CORS_HEADERS
from lbgen.plan.error_pages import ErrorPage, intercepts, share_statuses
from lbgen.plan.model import Listener, Route

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_KEPT = ("www-authenticate", "retry-after", "allow")
LITERAL = "X-Lbgen-Literal"  # see errors.go


def build_pages(pages: Sequence[ErrorPage], route: Route | None, listener: Listener) -> dict[str, Data]:
    """The middleware that shows these pages of a route or of none; empty without pages."""
    if not pages:
        return {}
    data: dict[str, Data] = {"pages": [_page(page, listener) for page, _ in share_statuses(pages, range(400, 600))]}
    if route is not None and intercepts(pages):
        data["keep"] = [*_KEPT, *_set_names(route)]
    return use_plugin("errorPages", data)


def _set_names(route: Route) -> list[str]:
    """The fields that Traefik itself sets in answers of the route."""
    edits = route.response_headers
    names = dict.fromkeys(name for name, _ in (*edits.set, *edits.add))
    if route.cors is not None:
        names |= dict.fromkeys((*CORS_HEADERS, "vary"))
    return list(names)


def _page(page: ErrorPage, listener: Listener) -> dict[str, Data]:
    data: dict[str, Data] = {"first": page.first, "last": page.last, "contentType": page.content_type}
    if page.status is not None:
        data["status"] = page.status
    if page.intercept:
        data["intercept"] = True
    if isinstance(page.body, str):
        return {**data, "body": page.body}
    return {**data, "bodyParts": write_shared(page.body, listener)}
