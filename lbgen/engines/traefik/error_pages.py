"""Error pages: the plugin's middleware before all others of a router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.traefik.plugin import use_plugin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.plan.error_pages import ErrorPage

LITERAL = "X-Lbgen-Literal"  # see errors.go


def build_pages(pages: Iterable[ErrorPage]) -> dict[str, Data]:
    """The middleware that shows these pages; empty for none."""
    found: list[Data] = [_page(page) for page in pages]
    return use_plugin("errorPages", found) if found else {}


def _page(page: ErrorPage) -> dict[str, Data]:
    data: dict[str, Data] = {"first": page.first, "last": page.last, "contentType": page.content_type}
    if page.status is not None:
        data["status"] = page.status
    if page.intercept:
        data["intercept"] = True
    return {**data, "body": page.body}
