"""How long an engine may take with its files: the more routes, the longer it reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

_ROUTES = 1_000


def for_routes(plan: Plan, seconds: float) -> float:
    """`seconds`, which are meant for up to 1,000 routes, in proportion to the routes of `plan` where it has more."""
    return seconds * max(1.0, len(plan.routes) / _ROUTES)
