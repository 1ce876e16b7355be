"""Advice about what is said to one engine alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


def check(context: Context) -> None:
    """LB280."""
    for name, block in context.model.engines.items():
        for place in block.verbatim:
            message = f"text for {name} alone: other engines do without it, and nothing proves what it does"
            context.advise("LB280", f"engines.{name}.{place}", message, "say it in the topology where that is possible")
