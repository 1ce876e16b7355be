"""What the tables of a plan are called, and to which address family an address belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Plan


def table_name(plan: Plan) -> str:
    """The tables of this plan; the prefix keeps names off nft's reserved words."""
    return f"lb_{plan.name}"


def family(address: str) -> str:
    """The nft word for the family of `address`."""
    return "ip6" if ":" in address else "ip"
