"""Advice on what is valid and probably not intended, each silenced by `ignore: [CODE]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.checks import acme, policies
from lbgen.plan.checks.advice import credentials, guards, routes, topology, values

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


def check(context: Context) -> None:
    """Add all advice about a topology without errors."""
    topology.check_listeners(context)
    topology.check_pools(context)
    routes.check(context)
    routes.check_redirects(context)
    routes.check_regexes(context)
    routes.check_literals(context)
    values.check(context)
    guards.check(context)
    credentials.check(context)
    topology.check_engines(context)
    topology.check_defaults(context)
    policies.check_defaults(context)
    topology.check_tiers(context)
    acme.advise(context)
