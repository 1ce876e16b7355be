"""Names under `engines` that no installed engine has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.installed import engine_names
from lbgen.plan.features import Feature
from lbgen.spec.pydantic_errors import suggest

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


def check(context: Context) -> None:
    """LB227 a name near that of an installed engine, LB228 `forwarding` of an engine that is a proxy."""
    for name in unknown_engines(context):
        hint = suggest(name, engine_names())
        if hint.startswith("did you mean"):
            context.add("LB227", f"engines.{name}", f'there is no engine "{name}"', hint, key=True)
    owner = Feature.NFT_DIRECT.only_engine
    for name, block in context.model.engines.items():
        if block.forwarding is not None and name != owner:
            message = f"forwarding sets how {owner} moves packets; {name} is a proxy and has no such choice"
            context.add("LB228", f"engines.{name}.forwarding", message, "drop it", key=True)


def unknown_engines(context: Context) -> Iterator[str]:
    """Names under `engines` that no installed engine has."""
    names = context.model.engines
    return (name for name in names if name not in engine_names()) if names else iter(())
