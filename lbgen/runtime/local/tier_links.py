"""Links between tiers of local processes: addresses and open connections of a stack behind another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lbgen.records import replace
from lbgen.runtime.common import ports

if TYPE_CHECKING:
    from lbgen.plan.model import Plan
    from lbgen.runtime.common.state import StackState

_LOOPBACK = "127.0.0.1"


def plan_behind_front(plan: Plan, before: StackState | None) -> Plan:
    """`plan` on loopback, on the ports it had in `before`, else on free ones."""
    had = {} if before is None else {name: port for name, (_, port) in listener_addresses(before).items()}
    moved = ports.on_ports(plan, had)
    return replace(moved, listeners=tuple(replace(x, address=_LOOPBACK) for x in moved.listeners))


def listener_addresses(state: StackState) -> dict[str, tuple[str, int]]:
    """(address, port) by listener, for this host and for the tier in front."""
    return {each.listener: (each.host, each.port) for engine in state.engines for each in engine.addresses}


def attach_networks(front: StackState, behind: Sequence[StackState]) -> None:
    """Nothing to do: all of them share this host's loopback."""
