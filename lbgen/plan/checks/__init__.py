"""Checks of how the objects of a topology fit together: findings LB2xx."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, Severity
from lbgen.plan.checks import (
    acme,
    auth,
    ignored,
    layers,
    listeners,
    placeholders,
    policies,
    pools,
    references,
    routes,
    tiers,
    unreachable,
)
from lbgen.plan.checks import files as file_checks
from lbgen.plan.checks.context import Context
from lbgen.plan.expand import ExpandedTopology, expand
from lbgen.plan.inheritance import with_inherited

if TYPE_CHECKING:
    from lbgen.spec.load import Topology


def find_problems(
    topology: Topology, expanded: ExpandedTopology, *, files: bool = False, ignore: tuple[str, ...] = ()
) -> list[Diagnostic]:
    """All findings, unsorted. With `files` the files that the topology names are checked too.

    Advice is given only where there are no errors. `ignore`: codes of warnings and advice to leave
    out, beside the topology's own.
    """
    from lbgen.plan.checks import advice

    context = _check(topology, expanded)
    if files:
        from lbgen.plan.checks import key_pairs

        file_checks.check(context)
        key_pairs.check(context)
    if all(finding.severity is not Severity.ERROR for finding in context.found):
        advice.check(context)
    return ignored.drop_ignored(context, ignore)


def find_errors(topology: Topology, expanded: ExpandedTopology) -> list[Diagnostic]:
    """The errors, unsorted; advice is not looked for, and no file is."""
    return [finding for finding in _check(topology, expanded).found if finding.severity is Severity.ERROR]


def _check(topology: Topology, expanded: ExpandedTopology) -> Context:
    context = Context(topology, expanded)
    references.check(context)
    policies.check(context)
    layers.check(context)
    listeners.check(context)
    acme.check(context)
    pools.check(context)
    routes.check(context)
    unreachable.check(context)
    placeholders.check(context)
    file_checks.check_certificates(context)
    file_checks.check_content(context)
    auth.check(context)
    routes.check_dropped_headers(context)
    tiers.check(context)
    pools.check_datagrams(context)
    listeners.check_contradictions(context)
    references.check_engines(context)
    return context


def find_file_problems(topology: Topology) -> tuple[Diagnostic, ...]:
    """Findings about the files that `topology` names: LB211, LB427, and LB428 (warnings)."""
    from lbgen.plan.checks import key_pairs

    topology = with_inherited(topology)
    context = Context(topology, expand(topology.model))
    file_checks.check(context)
    key_pairs.check(context)
    quiet = topology.model.ignore
    return tuple(x for x in context.found if x.severity is Severity.ERROR or x.code not in quiet)
