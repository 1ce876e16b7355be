"""Marks of packets, and names of tables and routers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

VRRP = "vrrp"  # the place for text of the topology
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
_MARKS = 0x6C620000  # "lb": marks below 65,536 are often used by hand


def is_every_address(address: str) -> bool:
    """Whether a listener is at every address of the host, for which IPVS needs marked packets."""
    return address in _ANY


def mark(index: int) -> int:
    """The mark of the packets of the listener with that index."""
    return _MARKS + index + 1


def table_name(plan: Plan) -> str:
    """The name of the tables that mark and masquerade, and of those of endpoints."""
    return f"lb_{plan.name}_ipvs"


def family(address: str) -> str:
    """The family of `address` in the kernel's words."""
    return "ip6" if ":" in address else "ip"
