"""Tell whether shorter times change only numbers in the files of an engine.

Some files depend on how sums of times compare, such as all tries of a request with its idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.conformance.verify.edited_files import line_changes
from lbgen.engines.rendered import Rendered, render_with
from lbgen.plan.overlay import with_version
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan
    from lbgen.runtime.local.messages import EngineChoice


def has_same_shape(chosen: EngineChoice, real: Plan, shorter: Plan) -> bool:
    """Whether the engine's files for both plans differ in numbers only, and it objects to the same fields."""
    if _objections(chosen, real) != _objections(chosen, shorter):
        return False
    try:
        line_changes(render_for(chosen, real), render_for(chosen, shorter))
    except ValueError:
        return False
    return True


def render_for(chosen: EngineChoice, plan: Plan) -> Rendered:
    """The files of `plan` for the engine, its version and its DNS servers; every verdict is accepted."""
    plan = with_version(replace(plan, resolvers=chosen.resolvers), chosen.name, chosen.version)
    return render_with(chosen.engine, plan, chosen.version, ("all",))


def _objections(chosen: EngineChoice, plan: Plan) -> list[tuple[str, Feature | None]]:
    return [(each.field, each.feature) for each in chosen.engine.objections(plan, chosen.version)]
