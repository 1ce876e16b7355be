"""The engine that a tier of a topology names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.diagnostics import NOWHERE, LbgenError, UsageError
from lbgen.engines.api import Engine, engine
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.plan.tiers import Tier


def engine_of(tier: Tier) -> Engine | None:
    """None when it names none. LbgenError LB305, with the place, when there is no such engine."""
    if tier.engine is None:
        return None
    try:
        return engine(tier.engine)
    except UsageError as unknown:
        field = f"tiers.{tier.name}.engine"
        span = dict(tier.plan.spans).get(field, NOWHERE)
        raise LbgenError([replace(each, span=span, field=field) for each in unknown.diagnostics]) from None


def engines_of(tier: Tier, others: tuple[str, ...]) -> tuple[str, ...]:
    """The name of its engine, else `others`. Raises as `engine_of` does."""
    named = engine_of(tier)
    return others if named is None else (named.name,)
