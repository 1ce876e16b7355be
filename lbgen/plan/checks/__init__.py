"""How the objects of a topology fit together -> findings LB2xx."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.checks import certificates, layers, listeners, pools, reach, references, routes
from lbgen.plan.checks import files as file_checks
from lbgen.plan.checks.context import Context

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic
    from lbgen.plan.expand import Expanded
    from lbgen.spec.load import Topology


def problems(topology: Topology, expanded: Expanded, *, files: bool = False) -> list[Diagnostic]:
    """All findings of the stage, errors to advice, in no order. With `files` the files it names must exist."""
    context = Context(topology, expanded)
    references.check(context)
    layers.check(context)
    listeners.check(context)
    pools.check(context)
    routes.check(context)
    reach.check(context)
    certificates.check(context)
    if files:
        file_checks.check(context)
    return context.found
