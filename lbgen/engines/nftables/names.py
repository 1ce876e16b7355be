"""Names of tables, and the address family of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Plan, Protocol


def table_name(plan: Plan) -> str:
    """The name of the plan's tables; the prefix avoids reserved words of nft."""
    return f"lb_{plan.name}"


def family(address: str) -> str:
    """The family of `address` in nft's words."""
    return "ip6" if ":" in address else "ip"


def select_name(route: str, protocol: Protocol, word: str) -> str:
    """The name of a route's chain and map that `lbgen agent` changes, in the table of the family `word`."""
    return f"lb_{route}/{protocol.value}/{word}"


def slots_name(selection: str, *, ranges: bool) -> str:
    """The name of the map of a selection of direct forwarding. Tables of direct forwarding stay, and a map with ranges
    cannot become one without."""
    return selection if ranges else f"{selection}/slots"
