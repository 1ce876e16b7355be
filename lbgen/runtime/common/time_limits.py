"""Scales time limits with the number of routes, since an engine needs longer for larger files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

_ROUTES = 1_000


def for_routes(plan: Plan, seconds: float) -> float:
    """Return `seconds`, which hold for up to 1,000 routes, scaled in proportion for plans with more."""
    return seconds * max(1.0, len(plan.routes) / _ROUTES)
