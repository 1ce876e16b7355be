"""Advice about text and settings for one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.installed import engine_names
from lbgen.plan.checks.engines import unknown_engines

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


def check(context: Context) -> None:
    """LB280 text for one engine, LB289 an engine that may be installed elsewhere."""
    for name in unknown_engines(context):
        message = f"is not an installed engine (installed: {', '.join(engine_names())}), so nothing reads it"
        context.advise("LB289", f"engines.{name}", message, "install its package, or drop it", key=True)
    for name, block in context.model.engines.items():
        for point in block.verbatim:
            message = f"this text is for {name} only: no other engine gets it, and lbgen cannot verify it"
            context.advise("LB280", f"engines.{name}.{point}", message, "use fields of the topology where they exist")
