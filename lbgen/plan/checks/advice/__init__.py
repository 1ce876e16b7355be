"""What is allowed and will probably hurt: LB26x to LB28x, each silenced by `ignore: [CODE]` in the topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.checks.advice import defaults, engines, listeners, pools, redirects, regexes, routes, tiers

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


def check(context: Context) -> None:
    """Everything there is to advise about a topology without errors."""
    listeners.check(context)
    pools.check(context)
    routes.check(context)
    redirects.check(context)
    regexes.check(context)
    engines.check(context)
    defaults.check(context)
    tiers.check(context)
