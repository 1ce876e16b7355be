"""The line of origin in rendered files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.version import VERSION

if TYPE_CHECKING:
    from lbgen.plan.model import Plan


def origin(plan: Plan) -> str:
    """`lbgen VERSION, topology NAME`. Not for files that an engine reads only when it starts: with another version of
    lbgen a reload would have to be refused."""
    return f"lbgen {VERSION}, topology {plan.name}"
