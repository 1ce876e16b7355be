"""Advice on what is valid and probably not intended: LB26x to LB29x, each silenced by `ignore: [CODE]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.checks.advice import defaults, engines, listeners, literals, pools, redirects, regexes, routes, tiers

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


def check(context: Context) -> None:
    """Add all advice about a topology without errors."""
    listeners.check(context)
    pools.check(context)
    routes.check(context)
    redirects.check(context)
    regexes.check(context)
    literals.check(context)
    engines.check(context)
    defaults.check(context)
    tiers.check(context)
