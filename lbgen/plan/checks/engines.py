"""Names under `engines` that no installed engine has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.installed import engine_names
from lbgen.spec.pydantic_errors import suggest

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


def check(context: Context) -> None:
    """LB227 a name near that of an installed engine."""
    for name in unknown_engines(context):
        hint = suggest(name, engine_names())
        if hint.startswith("did you mean"):
            context.add("LB227", f"engines.{name}", f'there is no engine "{name}"', hint, key=True)


def unknown_engines(context: Context) -> Iterator[str]:
    """Names under `engines` that no installed engine has."""
    names = context.model.engines
    return (name for name in names if name not in engine_names()) if names else iter(())
