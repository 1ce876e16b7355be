"""Advice about what is said to one engine alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.installed import engine_names
from lbgen.plan.checks.engines import unknown_engines

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


def check(context: Context) -> None:
    """LB280 text for one engine, LB289 an engine that may be installed elsewhere."""
    for name in unknown_engines(context):
        message = f"no engine of this name is installed here ({', '.join(engine_names())} are), so nothing reads it"
        context.advise("LB289", f"engines.{name}", message, "install its package, or drop it", key=True)
    for name, block in context.model.engines.items():
        for place in block.verbatim:
            message = f"text for {name} alone: other engines do without it, and nothing proves what it does"
            context.advise("LB280", f"engines.{name}.{place}", message, "say it in the topology where that is possible")
